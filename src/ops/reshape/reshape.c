#include "ops/reshape/reshape.h"

#include "ops/add/add.h"

tensor_id reshape_apply(graph *g, tensor_id x, shape to) {
    return graph_add(g, &op_reshape, &x, 1, &(reshape_attributes){ .shape = to });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const reshape_attributes *a = node_attributes(g, n);
    tensor_id id = node_in(g, n, 0);
    const tensor *x = graph_tensor(g, id);
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (!shape_valid(&a->shape, dtype_bytes(x->dtype)) ||
        shape_elements(&x->shape) != shape_elements(&a->shape))
        return status_set(STATUS_INVALID, "%s does not have the elements of %s", shape_text(&x->shape, is),
                          shape_text(&a->shape, should));
    out[0] = (tensor){ .shape = a->shape, .dtype = x->dtype, .base = id };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (want[0]) din[0] = add_gather(g, din[0], reshape_apply(g, dout[0], *graph_shape(g, node_in(g, n, 0))));
}

static op_cost cost(const graph *g, const node *n) {
    (void)g, (void)n;
    return (op_cost){ 0 };
}

static const op_input inputs[] = { { "x", 0, 1, 4, false } };

static const op_case cases[] = { { "flatten",
                                   { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 } },
                                   &(reshape_attributes){ { { 15, 7 }, 2 } },
                                   0,
                                   false },
                                 { "integers",
                                   { { DTYPE_I32, { { 12 }, 1 }, 0, 9 } },
                                   &(reshape_attributes){ { { 2, 3, 2, 1 }, 4 } },
                                   0,
                                   true },
                                 { 0 } };

const op_def op_reshape = { .name = "reshape",
                            .inputs = inputs,
                            .in_count = 1,
                            .out_count = 1,
                            .attribute_bytes = sizeof(reshape_attributes),
                            .traits = OP_VIEW | OP_HALF,
                            .infer = infer,
                            .grad = grad,
                            .cost = cost,
                            .cases = cases };
