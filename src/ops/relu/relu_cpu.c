#include "ops/reference.h"
#include "ops/relu/relu.h"

static void relu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double x = reference_get(op_in(c, 0), i);
        reference_set(&c->out[0], i, x < 0 ? 0 : x);
    }
}

static void relu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double d = reference_get(op_in(c, 1), i);
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i) > 0 ? d : 0);
    }
}

const op_kernel relu_cpu[] = { { "relu_reference", NULL, NULL, relu_reference }, { 0 } };
const op_kernel relu_backward_cpu[] = { { "relu_backward_reference", NULL, NULL, relu_backward_reference },
                                        { 0 } };
