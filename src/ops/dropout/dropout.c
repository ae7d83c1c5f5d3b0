#include "ops/dropout/dropout.h"

#include "ops/add/add.h"

tensor_id dropout_apply(graph *g, tensor_id x, tensor_id key, float p, int32_t stream) {
    return graph_add(g, &op_dropout, (tensor_id[]){ x, key }, 2,
                     &(dropout_attributes){ .p = p, .stream = stream });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const dropout_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    if (!(a->p >= 0 && a->p < 1))
        return status_set(STATUS_INVALID, "the probability is %g, must be at least 0 and below 1",
                          (double)a->p);
    if (shape_elements(graph_shape(g, node_in(g, n, 1))) != 4)
        return status_set(STATUS_INVALID, "the key must have four words");
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const dropout_attributes *a = node_attributes(g, n);
    if (want[0]) din[0] = add_gather(g, din[0], dropout_apply(g, dout[0], node_in(g, n, 1), a->p, a->stream));
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 1);
    cost.draws = cost.flops;
    return cost;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "key", DTYPE_MASK_INT, 1, 1, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

#define KEY                                                                                                  \
    { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 }
static const op_case cases[] = { { "batch",
                                   { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -2, 3 }, KEY },
                                   &(dropout_attributes){ 0.1f, 7 },
                                   1e-6,
                                   false },
                                 { "long samples",
                                   { { DTYPE_F32, { { 2, 40003 }, 2 }, -2, 3 }, KEY },
                                   &(dropout_attributes){ 0.5f, -1 },
                                   1e-6,
                                   false },
                                 { "nothing dropped",
                                   { { DTYPE_F32, { { 2, 3 }, 2 }, -2, 3 }, KEY },
                                   &(dropout_attributes){ 0, 7 },
                                   1e-6,
                                   false },
                                 { "one element",
                                   { { DTYPE_F32, { { 1 }, 1 }, -2, 3 }, KEY },
                                   &(dropout_attributes){ 0.3f, 0 },
                                   1e-6,
                                   false },
                                 { 0 } };

const op_def op_dropout = { .name = "dropout",
                            .paper = "Srivastava et al., JMLR 2014",
                            .inputs = inputs,
                            .in_count = 2,
                            .aliases = aliases,
                            .alias_count = 1,
                            .out_count = 1,
                            .attribute_bytes = sizeof(dropout_attributes),
                            .traits = OP_RANDOM | OP_ELEMENTWISE | OP_HALF,
                            .infer = infer,
                            .grad = grad,
                            .cost = cost,
                            .cpu = dropout_cpu,
                            .cuda = OP_CUDA(dropout_cuda),
                            .cases = cases };
