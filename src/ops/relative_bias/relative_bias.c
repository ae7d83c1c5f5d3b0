#include "ops/relative_bias/relative_bias.h"

tensor_id relative_bias_apply(graph *g, tensor_id table, const relative_bias_attributes *attributes) {
    return graph_add(g, &op_relative_bias, &table, 1, attributes);
}

static status check_attributes(const relative_bias_attributes *a, int64_t buckets) {
    int64_t least = a->both_ways ? 4 : 2;
    if (a->queries < 1 || a->keys < 1)
        return status_set(STATUS_INVALID, "no distances between %d queries and %d keys", a->queries, a->keys);
    if (a->place < 0) return status_set(STATUS_INVALID, "query 0 stands at %d", a->place);
    if (buckets < least || buckets > 1 << 20)
        return status_set(STATUS_INVALID, "%lld buckets of distances; there must be from %lld to %d",
                          (long long)buckets, (long long)least, 1 << 20);
    if (a->farthest <= buckets / (a->both_ways ? 4 : 2))
        return status_set(STATUS_INVALID, "the farthest distance is %d; it must be above %lld", a->farthest,
                          (long long)(buckets / (a->both_ways ? 4 : 2)));
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const relative_bias_attributes *a = node_attributes(g, n);
    const tensor *table = graph_tensor(g, node_in(g, n, 0));
    TRY(check_attributes(a, table->shape.dim[0]));
    out[0] = (tensor){ .shape = SHAPE(table->shape.dim[1], a->queries, a->keys), .dtype = table->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (!want[0]) return;
    relative_bias_backward_attributes back = { .of = *(const relative_bias_attributes *)node_attributes(g, n),
                                               .buckets = (int32_t)graph_shape(g, node_in(g, n, 0))->dim[0] };
    din[0] = graph_add(g, &op_relative_bias_backward, (tensor_id[]){ dout[0], din[0] }, 2, &back);
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "table", DTYPE_MASK_FLOAT, 2, 2, false } };

static const op_case cases[] = { { "both ways",
                                   { { DTYPE_F32, { { 8, 3 }, 2 }, -1, 1 } },
                                   &(relative_bias_attributes){ 11, 14, 1, 9, 0 },
                                   0,
                                   false },
                                 { "backwards",
                                   { { DTYPE_F32, { { 32, 2 }, 2 }, -1, 1 } },
                                   &(relative_bias_attributes){ 150, 150, 0, 128, 0 },
                                   0,
                                   true },
                                 { "one query, at its place",
                                   { { DTYPE_F32, { { 32, 3 }, 2 }, -1, 1 } },
                                   &(relative_bias_attributes){ 1, 600, 0, 128, .place = 200 },
                                   0,
                                   true },
                                 { "some queries amidst the keys",
                                   { { DTYPE_F32, { { 8, 2 }, 2 }, -1, 1 } },
                                   &(relative_bias_attributes){ 3, 9, 1, 9, .place = 4 },
                                   0,
                                   false },
                                 { "halves",
                                   { { DTYPE_BF16, { { 32, 2 }, 2 }, -1, 1 } },
                                   &(relative_bias_attributes){ 70, 90, 1, 128, 0 },
                                   0,
                                   true },
                                 { 0 } };

const op_def op_relative_bias = { .name = "relative_bias",
                                  .paper = "arXiv:1910.10683",
                                  .inputs = inputs,
                                  .in_count = 1,
                                  .out_count = 1,
                                  .attribute_bytes = sizeof(relative_bias_attributes),
                                  .infer = infer,
                                  .grad = grad,
                                  .cost = cost,
                                  .cpu = relative_bias_cpu,
                                  .cuda = OP_CUDA(relative_bias_cuda),
                                  .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const relative_bias_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    tensor_id accumulator = node_in(g, n, 1);
    shape table = SHAPE(a->buckets, dy->shape.dim[0]);
    TRY(check_attributes(&a->of, a->buckets));
    if (dy->shape.dim[1] != a->of.queries || dy->shape.dim[2] != a->of.keys)
        return status_set(STATUS_INVALID, "the gradient must have the shape of the bias");
    if (accumulator && (!shape_equal(graph_shape(g, accumulator), &table) ||
                        graph_tensor(g, accumulator)->dtype != dy->dtype))
        return status_set(STATUS_INVALID, "the accumulator must have the shape and type of the table");
    out[0] = (tensor){ .shape = table, .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input backward_inputs[] = { { "dbias", DTYPE_MASK_FLOAT, 3, 3, false },
                                            { "accumulator", DTYPE_MASK_FLOAT, 2, 2, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 1, .must = true } };

static const op_case backward_cases[] = {
    { "both ways",
      { { DTYPE_F32, { { 3, 11, 14 }, 3 }, -1, 1 } },
      &(relative_bias_backward_attributes){ { 11, 14, 1, 9, 0 }, 8 },
      1e-6,
      false },
    { "backwards, added",
      { { DTYPE_F32, { { 2, 20, 20 }, 3 }, -1, 1 }, { DTYPE_F32, { { 32, 2 }, 2 }, -1, 1 } },
      &(relative_bias_backward_attributes){ { 20, 20, 0, 128, 0 }, 32 },
      1e-6,
      false },
    { "long",
      { { DTYPE_F32, { { 3, 200, 300 }, 3 }, -1, 1 } },
      &(relative_bias_backward_attributes){ { 200, 300, 1, 128, 0 }, 32 },
      1e-6,
      true },
    { 0 }
};

const op_def op_relative_bias_backward = { .name = "relative_bias_backward",
                                           .paper = "arXiv:1910.10683",
                                           .inputs = backward_inputs,
                                           .in_count = 2,
                                           .aliases = backward_aliases,
                                           .alias_count = 1,
                                           .out_count = 1,
                                           .attribute_bytes = sizeof(relative_bias_backward_attributes),
                                           .traits = OP_SUMS_SUMS,
                                           .infer = infer_backward,
                                           .cost = cost_backward,
                                           .cpu = relative_bias_backward_cpu,
                                           .cuda = OP_CUDA(relative_bias_backward_cuda),
                                           .cases = backward_cases };
