#include "ops/slice/slice.h"

tensor_id slice_apply(graph *g, tensor_id x, int64_t start, int64_t count) {
    return graph_add(g, &op_slice, &x, 1, &(slice_attributes){ .start = start, .count = count });
}

tensor_id slice_backward_apply(graph *g, tensor_id dy, tensor_id accumulator, int64_t start, int64_t rows) {
    return graph_add(g, &op_slice_backward, (tensor_id[]){ dy, accumulator }, 2,
                     &(slice_backward_attributes){ .start = start, .rows = rows });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const slice_attributes *a = node_attributes(g, n);
    tensor_id id = node_in(g, n, 0);
    const tensor *x = graph_tensor(g, id);
    if (a->start < 0 || a->count < 1 || a->count > x->shape.dim[0] - a->start)
        return status_set(STATUS_INVALID, "%lld indexes from %lld on are not in a dimension of %lld",
                          (long long)a->count, (long long)a->start, (long long)x->shape.dim[0]);
    int64_t item = (int64_t)graph_tensor_bytes(g, id) / x->shape.dim[0];
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype, .base = id, .offset = a->start * item };
    out[0].shape.dim[0] = a->count;
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const slice_attributes *a = node_attributes(g, n);
    if (want[0])
        din[0] = slice_backward_apply(g, dout[0], din[0], a->start, graph_shape(g, node_in(g, n, 0))->dim[0]);
}

static op_cost cost(const graph *g, const node *n) {
    (void)g, (void)n;
    return (op_cost){ 0 };
}

static const op_input inputs[] = { { "x", 0, 1, 4, false } };

static const op_case cases[] = {
    { "middle", { { DTYPE_F32, { { 7, 5, 3 }, 3 }, -1, 1 } }, &(slice_attributes){ 2, 3 }, 0, false },
    { "end", { { DTYPE_F32, { { 9 }, 1 }, -1, 1 } }, &(slice_attributes){ 8, 1 }, 0, false },
    { "integers", { { DTYPE_I32, { { 4, 3 }, 2 }, 0, 9 } }, &(slice_attributes){ 0, 4 }, 0, true },
    { 0 }
};

const op_def op_slice = { .name = "slice",
                          .inputs = inputs,
                          .in_count = 1,
                          .out_count = 1,
                          .attribute_bytes = sizeof(slice_attributes),
                          .traits = OP_VIEW | OP_HALF,
                          .infer = infer,
                          .grad = grad,
                          .cost = cost,
                          .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const slice_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    tensor_id accumulator = node_in(g, n, 1);
    shape whole = dy->shape;
    whole.dim[0] = a->rows;
    if (a->start < 0 || dy->shape.dim[0] > a->rows - a->start)
        return status_set(STATUS_INVALID, "%lld indexes from %lld on are not in a dimension of %lld",
                          (long long)dy->shape.dim[0], (long long)a->start, (long long)a->rows);
    if (accumulator && (!shape_equal(graph_shape(g, accumulator), &whole) ||
                        graph_tensor(g, accumulator)->dtype != dy->dtype))
        return status_set(STATUS_INVALID, "the accumulator must have the shape of the result");
    out[0] = (tensor){ .shape = whole, .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input backward_inputs[] = { { "dy", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "accumulator", DTYPE_MASK_FLOAT, 1, 4, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 1, .must = false } };

static const op_case backward_cases[] = {
    { "alone",
      { { DTYPE_F32, { { 3, 50, 201 }, 3 }, -1, 1 } },
      &(slice_backward_attributes){ 2, 7 },
      1e-7,
      true },
    { "added",
      { { DTYPE_F32, { { 3, 5 }, 2 }, -1, 1 }, { DTYPE_F32, { { 9, 5 }, 2 }, -1, 1 } },
      &(slice_backward_attributes){ 6, 9 },
      1e-7,
      true },
    { "whole",
      { { DTYPE_F32, { { 1 }, 1 }, -1, 1 }, { DTYPE_F32, { { 1 }, 1 }, -1, 1 } },
      &(slice_backward_attributes){ 0, 1 },
      1e-7,
      true },
    { 0 }
};

const op_def op_slice_backward = { .name = "slice_backward",
                                   .inputs = backward_inputs,
                                   .in_count = 2,
                                   .aliases = backward_aliases,
                                   .alias_count = 1,
                                   .out_count = 1,
                                   .attribute_bytes = sizeof(slice_backward_attributes),
                                   .infer = infer_backward,
                                   .cost = cost_backward,
                                   .cpu = slice_backward_cpu,
                                   .cuda = OP_CUDA(slice_backward_cuda),
                                   .cases = backward_cases };
