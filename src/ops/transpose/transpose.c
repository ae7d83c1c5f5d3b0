#include "ops/transpose/transpose.h"

#include "ops/add/add.h"

tensor_id transpose_apply(graph *g, tensor_id x, const transpose_attributes *a) {
    return graph_add(g, &op_transpose, &x, 1, a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const transpose_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    char is[SHAPE_TEXT_BYTES];
    if (a->first < 0 || a->second <= a->first || a->second >= (int32_t)x->shape.rank)
        return status_set(STATUS_INVALID, "%s has no two dimensions %d and %d", shape_text(&x->shape, is),
                          a->first, a->second);
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[0].shape.dim[a->first] = x->shape.dim[a->second];
    out[0].shape.dim[a->second] = x->shape.dim[a->first];
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    transpose_attributes a = *(const transpose_attributes *)node_attributes(g, graph_node(g, id));
    if (want[0]) din[0] = add_gather(g, din[0], transpose_apply(g, dout[0], &a));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 0); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false } };

static const transpose_attributes outer = { 0, 1 }, inner = { 1, 2 }, apart = { 1, 3 };

static const op_case cases[] = {
    { "matrix", { { DTYPE_F32, { { 7, 5 }, 2 }, -1, 1 } }, &outer, 0, false },
    { "inner", { { DTYPE_F32, { { 3, 70, 45 }, 3 }, -1, 1 } }, &inner, 0, true },
    { "whole rows", { { DTYPE_F32, { { 3, 4, 5, 6 }, 4 }, -1, 1 } }, &inner, 0, false },
    { "apart", { { DTYPE_F32, { { 2, 3, 4, 5 }, 4 }, -1, 1 } }, &apart, 0, false },
    { "several pieces", { { DTYPE_F32, { { 2, 150, 7, 41 }, 4 }, -1, 1 } }, &apart, 0, true },
    { 0 }
};

const op_def op_transpose = { .name = "transpose",
                              .inputs = inputs,
                              .in_count = 1,
                              .out_count = 1,
                              .attribute_bytes = sizeof(transpose_attributes),
                              .traits = OP_HALF,
                              .infer = infer,
                              .grad = grad,
                              .cost = cost,
                              .cpu = transpose_cpu,
                              .cuda = OP_CUDA(transpose_cuda),
                              .cases = cases };
