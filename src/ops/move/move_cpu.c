#include <string.h>

#include "ops/fast.h"
#include "ops/move/move.h"
#include "ops/reference.h"

static void move_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(&c->in[0], i));
}

static void move_piece(const op_call *c, int64_t first, int64_t last) {
    size_t each = dtype_bytes(c->out[0].dtype), at = (size_t)first * each;
    memcpy((char *)c->out[0].data + at, (const char *)c->in[0].data + at, (size_t)(last - first) * each);
}

static void move_fast(const op_call *c) { fast_for_elements(c, move_piece); }

const op_kernel move_cpu[] = { { "move_cpu_copy", NULL, NULL, move_fast },
                               { "move_reference", NULL, NULL, move_reference },
                               { 0 } };
