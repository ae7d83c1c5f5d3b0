#include "ops/unary.h"

#define NUMBERS(name)                                                                                        \
    { name, DTYPE_MASK_FLOAT, 1, 4, false }

const op_input unary_inputs[1] = { NUMBERS("x") };
const op_alias unary_aliases[1] = { { .out = 0, .in = 0, .must = false } };
const op_input unary_backward_by_x[UNARY_BACKWARD_INPUTS] = { NUMBERS("x"), NUMBERS("dy") };
const op_input unary_backward_by_y[UNARY_BACKWARD_INPUTS] = { NUMBERS("y"), NUMBERS("dy") };
const op_alias unary_backward_aliases[UNARY_BACKWARD_INPUTS] = { { .out = 0, .in = 1, .must = false },
                                                                 { .out = 0, .in = 0, .must = false } };

status unary_infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

status unary_infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *kept = graph_tensor(g, node_in(g, n, 0));
    TRY(op_check_input(g, n, 1, &kept->shape, kept->dtype));
    return unary_infer(g, n, out);
}
