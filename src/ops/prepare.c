#include "ops/prepare.h"

#include "ops/attention_library/attention_library.h"

static const struct {
    const op_def *op;
    status (*prepare)(const op_call *c);
} prepared[] = { { &op_attention_library, attention_library_prepare },
                 { &op_attention_library_backward, attention_library_prepare_backward } };

status prepare_call(const op_def *op, const op_call *c) {
    for (size_t i = 0; i < sizeof prepared / sizeof *prepared; i++)
        if (prepared[i].op == op) return prepared[i].prepare(c);
    return STATUS_OK;
}
