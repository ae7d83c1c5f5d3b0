#include "ops/embedding/embedding.h"
#include "ir/row_sum.h"

tensor_id embedding_apply(graph *g, tensor_id ids, tensor_id table) {
    return graph_add(g, &op_embedding, (tensor_id[]){ ids, table }, 2, NULL);
}

tensor_id embedding_backward_apply(graph *g, tensor_id ids, tensor_id dy, tensor_id accumulator, int64_t rows,
                                   dtype type) {
    return graph_add(g, &op_embedding_backward, (tensor_id[]){ ids, dy, accumulator }, 3,
                     &(embedding_backward_attributes){ .rows = rows, .type = (int32_t)type });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const shape *ids = graph_shape(g, node_in(g, n, 0));
    const tensor *table = graph_tensor(g, node_in(g, n, 1));
    shape y = *ids;
    y.dim[y.rank++] = table->shape.dim[1];
    out[0] = (tensor){ .shape = y, .dtype = table->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id table = node_in(g, n, 1);
    if (want[1])
        din[1] = embedding_backward_apply(g, node_in(g, n, 0), dout[0], din[1], graph_shape(g, table)->dim[0],
                                          graph_gradient_dtype(g, table));
}

static op_cost cost(const graph *g, const node *n) {
    double bytes = (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return (op_cost){ .bytes_read = bytes + (double)graph_tensor_bytes(g, node_in(g, n, 0)),
                      .bytes_written = bytes };
}

static op_range range(const graph *g, const node *n, uint32_t input) {
    return input == 0 ? (op_range){ .below = graph_shape(g, node_in(g, n, 1))->dim[0] } : (op_range){ 0 };
}

static const op_input inputs[] = { { "ids", DTYPE_MASK_INT, 1, 3, false },
                                   { "table", DTYPE_MASK_FLOAT, 2, 2, false } };

static const op_case cases[] = {
    { "list", { { DTYPE_I32, { { 9 }, 1 }, 0, 5 }, { DTYPE_F32, { { 5, 3 }, 2 }, -1, 1 } }, NULL, 0, false },
    { "batch",
      { { DTYPE_I32, { { 3, 101 }, 2 }, 0, 50 }, { DTYPE_F32, { { 50, 130 }, 2 }, -1, 1 } },
      NULL,
      0,
      false },
    { "ids out of range",
      { { DTYPE_I32, { { 3, 50 }, 2 }, -10, 20 }, { DTYPE_F32, { { 5, 7 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "one", { { DTYPE_I32, { { 1 }, 1 }, 0, 1 }, { DTYPE_F32, { { 1, 1 }, 2 }, -1, 1 } }, NULL, 0, false },
    { 0 }
};

const op_def op_embedding = { .name = "embedding",
                              .inputs = inputs,
                              .in_count = 2,
                              .out_count = 1,
                              .traits = OP_HALF,
                              .infer = infer,
                              .grad = grad,
                              .cost = cost,
                              .range = range,
                              .cpu = embedding_cpu,
                              .cuda = OP_CUDA(embedding_cuda),
                              .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const embedding_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 1));
    tensor_id accumulator = node_in(g, n, 2);
    uint8_t type = a->type ? (uint8_t)a->type : dy->dtype;
    shape expected = *graph_shape(g, node_in(g, n, 0)), table = SHAPE(a->rows, shape_last(&dy->shape));
    expected.dim[expected.rank++] = table.dim[1];
    if (!shape_equal(&dy->shape, &expected))
        return status_set(STATUS_INVALID, "dy must have the shape of the ids and one dimension more");
    if (accumulator &&
        (!shape_equal(graph_shape(g, accumulator), &table) || graph_tensor(g, accumulator)->dtype != type))
        return status_set(STATUS_INVALID, "the accumulator must have the shape and type of the table");
    if (dtype_wide((dtype)type) != dtype_wide((dtype)dy->dtype))
        return status_set(STATUS_INVALID, "dy is %s, dtable cannot be %s", dtype_name((dtype)dy->dtype),
                          dtype_name((dtype)type));
    out[0] = (tensor){ .shape = table, .dtype = type };
    return STATUS_OK;
}

/* With an accumulator only the rows that are picked are touched. */
static op_cost cost_backward(const graph *g, const node *n) {
    double dy = (double)graph_tensor_bytes(g, node_in(g, n, 1));
    op_cost cost = { .flops = (double)shape_elements(graph_shape(g, node_in(g, n, 1))),
                     .bytes_read = 2 * dy + (double)graph_tensor_bytes(g, node_in(g, n, 0)),
                     .bytes_written = dy };
    if (!node_in(g, n, 2)) cost.bytes_written += (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return cost;
}

static const op_input backward_inputs[] = { { "ids", DTYPE_MASK_INT, 1, 3, false },
                                            { "dy", DTYPE_MASK_FLOAT, 2, 4, false },
                                            { "accumulator", DTYPE_MASK_FLOAT, 2, 2, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 2, .must = true } };

static const op_case backward_cases[] = {
    { "absent accumulator",
      { { DTYPE_I32, { { 3, 101 }, 2 }, 0, 50 }, { DTYPE_F32, { { 3, 101, 300 }, 3 }, -1, 1 } },
      &(embedding_backward_attributes){ 50, 0 },
      1e-7,
      false },
    { "more rows than threads of a block have",
      { { DTYPE_I32, { { 20000 }, 1 }, -2, 1200 }, { DTYPE_F32, { { 20000, 2 }, 2 }, -1, 1 } },
      &(embedding_backward_attributes){ 1100, 0 },
      1e-6,
      true },
    { "outside, a table of whole digits",
      { { DTYPE_I32, { { 900 }, 1 }, -2, 18 }, { DTYPE_F32, { { 900, 5 }, 2 }, -1, 1 } },
      &(embedding_backward_attributes){ 16, 0 },
      1e-6,
      true },
    { "accumulator",
      { { DTYPE_I32, { { 700 }, 1 }, 0, 7 },
        { DTYPE_F32, { { 700, 3 }, 2 }, -1, 1 },
        { DTYPE_F32, { { 7, 3 }, 2 }, -1, 1 } },
      &(embedding_backward_attributes){ 7, 0 },
      1e-7,
      false },
    { "ids out of range",
      { { DTYPE_I32, { { 3, 50 }, 2 }, -10, 20 },
        { DTYPE_F32, { { 3, 50, 5 }, 3 }, -1, 1 },
        { DTYPE_F32, { { 5, 5 }, 2 }, -1, 1 } },
      &(embedding_backward_attributes){ 5, 0 },
      1e-7,
      false },
    { "halves to f32",
      { { DTYPE_I32, { { 700 }, 1 }, 0, 7 },
        { DTYPE_BF16, { { 700, 300 }, 2 }, -1, 1 },
        { DTYPE_F32, { { 7, 300 }, 2 }, -1, 1 } },
      &(embedding_backward_attributes){ 7, DTYPE_F32 },
      1e-6,
      true },
    { "f32 to halves",
      { { DTYPE_I32, { { 20 }, 1 }, 0, 7 }, { DTYPE_F32, { { 20, 300 }, 2 }, -1, 1 } },
      &(embedding_backward_attributes){ 7, DTYPE_F16 },
      2e-3,
      true },
    { 0 }
};

static const op_row_sum row_sum = { .ids = 0, .rows = 1, .accumulator = 2 };

const op_def op_embedding_backward = { .name = "embedding_backward",
                                       .inputs = backward_inputs,
                                       .in_count = 3,
                                       .aliases = backward_aliases,
                                       .alias_count = 1,
                                       .out_count = 1,
                                       .attribute_bytes = sizeof(embedding_backward_attributes),
                                       .infer = infer_backward,
                                       .cost = cost_backward,
                                       .cpu = embedding_backward_cpu,
                                       .cuda = OP_CUDA(embedding_backward_cuda),
                                       .cases = backward_cases,
                                       .row_sum = &row_sum };
