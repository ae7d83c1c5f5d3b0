#include "ops/columns/columns.h"

tensor_id columns_apply(graph *g, tensor_id x, const columns_attributes *a) {
    return graph_add(g, &op_columns, &x, 1, a);
}

static status check(const columns_attributes *a, int64_t all) {
    int64_t end = (int64_t)a->start + (int64_t)(a->count - 1) * a->stride + a->width;
    if (a->start < 0 || a->width < 1 || a->count < 1 || (a->count > 1 && a->stride < a->width) || end > all)
        return status_set(STATUS_INVALID,
                          "%d runs of %d columns, %d apart, from %d on are not among %lld columns", a->count,
                          a->width, a->stride, a->start, (long long)all);
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const columns_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check(a, shape_last(&x->shape)));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[0].shape.dim[x->shape.rank - 1] = (int64_t)a->count * a->width;
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const columns_attributes *a = node_attributes(g, n);
    columns_backward_attributes back = { *a, shape_last(graph_shape(g, node_in(g, n, 0))) };
    if (want[0]) din[0] = graph_add(g, &op_columns_backward, (tensor_id[]){ dout[0], din[0] }, 2, &back);
}

static op_cost cost(const graph *g, const node *n) {
    double bytes = (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return (op_cost){ .bytes_read = bytes, .bytes_written = bytes };
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };

static const columns_attributes middle = { .start = 3, .width = 4, .count = 1 };
static const columns_attributes heads = { .start = 8, .width = 8, .stride = 24, .count = 5 };

static const op_case cases[] = {
    { "middle", { { DTYPE_F32, { { 3, 5, 11 }, 3 }, -1, 1 } }, &middle, 0, false },
    { "of every head", { { DTYPE_F32, { { 2, 300, 120 }, 3 }, -1, 1 } }, &heads, 0, false },
    { "halves", { { DTYPE_BF16, { { 2, 300, 120 }, 3 }, -1, 1 } }, &heads, 0, true },
    { 0 }
};

const op_def op_columns = { .name = "columns",
                            .inputs = inputs,
                            .in_count = 1,
                            .out_count = 1,
                            .attribute_bytes = sizeof(columns_attributes),
                            .traits = OP_HALF,
                            .infer = infer,
                            .grad = grad,
                            .cost = cost,
                            .cpu = columns_cpu,
                            .cuda = OP_CUDA(columns_cuda),
                            .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const columns_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    tensor_id accumulator = node_in(g, n, 1);
    TRY(check(&a->of, a->all));
    shape whole = dy->shape;
    whole.dim[whole.rank - 1] = a->all;
    if (shape_last(&dy->shape) != (int64_t)a->of.count * a->of.width)
        return status_set(STATUS_INVALID, "dy has %lld columns, not %d times %d",
                          (long long)shape_last(&dy->shape), a->of.count, a->of.width);
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

static const columns_backward_attributes middle_back = { { .start = 3, .width = 4, .count = 1 }, 11 };
static const columns_backward_attributes heads_back = { { .start = 8, .width = 8, .stride = 24, .count = 5 },
                                                        120 };

static const columns_backward_attributes first_back = { { .start = 2, .width = 3, .stride = 5, .count = 2 },
                                                        19 };

static const op_case backward_cases[] = {
    { "alone", { { DTYPE_F32, { { 3, 5, 4 }, 3 }, -1, 1 } }, &middle_back, 1e-7, true },
    { "added",
      { { DTYPE_F32, { { 2, 300, 40 }, 3 }, -1, 1 }, { DTYPE_F32, { { 2, 300, 120 }, 3 }, -1, 1 } },
      &heads_back,
      1e-7,
      true },
    { "halves",
      { { DTYPE_BF16, { { 2, 300, 40 }, 3 }, -1, 1 }, { DTYPE_BF16, { { 2, 300, 120 }, 3 }, -1, 1 } },
      &heads_back,
      0,
      true },
    { "of the first heads", { { DTYPE_F32, { { 3, 6 }, 2 }, -1, 1 } }, &first_back, 1e-7, true },
    { 0 }
};

const op_def op_columns_backward = { .name = "columns_backward",
                                     .inputs = backward_inputs,
                                     .in_count = 2,
                                     .aliases = backward_aliases,
                                     .alias_count = 1,
                                     .out_count = 1,
                                     .attribute_bytes = sizeof(columns_backward_attributes),
                                     .infer = infer_backward,
                                     .cost = cost_backward,
                                     .cpu = columns_backward_cpu,
                                     .cuda = OP_CUDA(columns_backward_cuda),
                                     .cases = backward_cases };
