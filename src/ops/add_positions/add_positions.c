#include "ops/add_positions/add_positions.h"

#include "ops/add/add.h"

tensor_id add_positions_apply(graph *g, tensor_id x, tensor_id table, tensor_id offset) {
    return graph_add(g, &op_add_positions, (tensor_id[]){ x, table, offset }, 3,
                     &(add_positions_attributes){ 0 });
}

tensor_id add_positions_at(graph *g, tensor_id x, tensor_id table, const add_positions_attributes *at) {
    return graph_add(g, &op_add_positions, (tensor_id[]){ x, table, 0 }, 3, at);
}

tensor_id add_positions_backward_apply(graph *g, tensor_id dy, tensor_id offset, tensor_id accumulator,
                                       const add_positions_backward_attributes *attributes) {
    return graph_add(g, &op_add_positions_backward, (tensor_id[]){ dy, offset, accumulator }, 3, attributes);
}

static status check_offset(const graph *g, tensor_id offset) {
    if (offset && shape_elements(graph_shape(g, offset)) != 1)
        return status_set(STATUS_INVALID, "the offset must be one element");
    return STATUS_OK;
}

/* The rows that are asked for by shape; what an offset adds is not known here. */
static status check_rows(const add_positions_attributes *at, int64_t times, int64_t rows) {
    int64_t asked = at->still ? 1 : times;
    if (at->first >= 0 && asked <= rows - at->first) return STATUS_OK;
    return status_set(STATUS_INVALID, "%lld positions from %d on are asked of a table of %lld",
                      (long long)asked, at->first, (long long)rows);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *table = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (table->shape.dim[1] != x->shape.dim[2] ||
        dtype_wide((dtype)table->dtype) != dtype_wide((dtype)x->dtype))
        return status_set(STATUS_INVALID, "a table %s has no positions for %s",
                          shape_text(&table->shape, left), shape_text(&x->shape, right));
    TRY(check_rows(node_attributes(g, n), x->shape.dim[1], table->shape.dim[0]));
    TRY(check_offset(g, node_in(g, n, 2)));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id offset = node_in(g, n, 2), table = node_in(g, n, 1);
    const add_positions_attributes *at = node_attributes(g, n);
    add_positions_backward_attributes back = { .rows = graph_shape(g, table)->dim[0],
                                               .type = (int32_t)graph_gradient_dtype(g, table),
                                               .at = *at };
    if (want[1]) din[1] = add_positions_backward_apply(g, dout[0], offset, din[1], &back);
    if (want[0]) din[0] = add_gather(g, din[0], dout[0]);
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 1);
    const shape *x = graph_shape(g, node_in(g, n, 0)), *table = graph_shape(g, node_in(g, n, 1));
    const add_positions_attributes *at = node_attributes(g, n);
    double unused = 1.0 - (at->still ? 1 : (double)x->dim[1]) / (double)table->dim[0];
    cost.bytes_read -= unused * (double)graph_tensor_bytes(g, node_in(g, n, 1));
    return cost;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "table", DTYPE_MASK_FLOAT, 2, 2, false },
                                   { "offset", DTYPE_MASK_INT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case cases[] = {
    { "a narrow table",
      { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 }, { DTYPE_BF16, { { 5, 7 }, 2 }, -1, 1 } },
      &(add_positions_attributes){ 0, 0 },
      0,
      true },
    { "no offset",
      { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 }, { DTYPE_F32, { { 5, 7 }, 2 }, -1, 1 } },
      &(add_positions_attributes){ 0, 0 },
      0,
      false },
    { "offset",
      { { DTYPE_F32, { { 2, 130, 300 }, 3 }, -1, 1 },
        { DTYPE_F32, { { 140, 300 }, 2 }, -1, 1 },
        { DTYPE_I32, { { 1 }, 1 }, 3, 10 } },
      &(add_positions_attributes){ 0, 0 },
      0,
      false },
    { "outside",
      { { DTYPE_F32, { { 2, 5, 3 }, 3 }, -1, 1 },
        { DTYPE_F32, { { 6, 3 }, 2 }, -1, 1 },
        { DTYPE_I32, { { 1 }, 1 }, 4, 5 } },
      &(add_positions_attributes){ 0, 0 },
      0,
      true },
    { "from row 2 on",
      { { DTYPE_F32, { { 2, 5, 3 }, 3 }, -1, 1 }, { DTYPE_F32, { { 9, 3 }, 2 }, -1, 1 } },
      &(add_positions_attributes){ 2, 0 },
      0,
      false },
    { "one row for all",
      { { DTYPE_F32, { { 3, 130, 40 }, 3 }, -1, 1 }, { DTYPE_F32, { { 2, 40 }, 2 }, -1, 1 } },
      &(add_positions_attributes){ 1, 1 },
      0,
      false },
    { 0 }
};

const op_def op_add_positions = { .name = "add_positions",
                                  .inputs = inputs,
                                  .in_count = 3,
                                  .aliases = aliases,
                                  .alias_count = 1,
                                  .out_count = 1,
                                  .attribute_bytes = sizeof(add_positions_attributes),
                                  .traits = OP_HALF,
                                  .infer = infer,
                                  .grad = grad,
                                  .cost = cost,
                                  .cpu = add_positions_cpu,
                                  .cuda = OP_CUDA(add_positions_cuda),
                                  .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const add_positions_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    tensor_id accumulator = node_in(g, n, 2);
    uint8_t type = a->type ? (uint8_t)a->type : dy->dtype;
    shape table = SHAPE(a->rows, dy->shape.dim[2]);
    TRY(check_offset(g, node_in(g, n, 1)));
    if (accumulator &&
        (!shape_equal(graph_shape(g, accumulator), &table) || graph_tensor(g, accumulator)->dtype != type))
        return status_set(STATUS_INVALID, "the accumulator must have the shape and type of the table");
    if (dtype_wide((dtype)type) != dtype_wide((dtype)dy->dtype))
        return status_set(STATUS_INVALID, "dy is %s, dtable cannot be %s", dtype_name((dtype)dy->dtype),
                          dtype_name((dtype)type));
    out[0] = (tensor){ .shape = table, .dtype = type };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input backward_inputs[] = { { "dy", DTYPE_MASK_FLOAT, 3, 3, false },
                                            { "offset", DTYPE_MASK_INT, 1, 1, true },
                                            { "accumulator", DTYPE_MASK_FLOAT, 2, 2, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 2, .must = true } };

static const op_case backward_cases[] = {
    { "neither",
      { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 } },
      &(add_positions_backward_attributes){ .rows = 6 },
      1e-7,
      false },
    { "both",
      { { DTYPE_F32, { { 4, 130, 300 }, 3 }, -1, 1 },
        { DTYPE_I32, { { 1 }, 1 }, 3, 10 },
        { DTYPE_F32, { { 140, 300 }, 2 }, -1, 1 } },
      &(add_positions_backward_attributes){ .rows = 140 },
      1e-6,
      false },
    { "outside",
      { { DTYPE_F32, { { 2, 5, 3 }, 3 }, -1, 1 }, { DTYPE_I32, { { 1 }, 1 }, 4, 5 } },
      &(add_positions_backward_attributes){ .rows = 6 },
      1e-7,
      false },
    { "halves to f32",
      { { DTYPE_BF16, { { 2, 130, 600 }, 3 }, -1, 1 },
        { DTYPE_I32, { { 1 }, 1 }, 3, 4 },
        { DTYPE_F32, { { 140, 600 }, 2 }, -1, 1 } },
      &(add_positions_backward_attributes){ .rows = 140, .type = DTYPE_F32 },
      1e-6,
      true },
    { "from row 2 on",
      { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 } },
      &(add_positions_backward_attributes){ .rows = 8, .at = { 2, 0 } },
      1e-7,
      false },
    { "one row for all",
      { { DTYPE_F32, { { 3, 130, 40 }, 3 }, -1, 1 }, { 0 }, { DTYPE_F32, { { 2, 40 }, 2 }, -1, 1 } },
      &(add_positions_backward_attributes){ .rows = 2, .at = { 1, 1 } },
      1e-6,
      false },
    { "halves to one row",
      { { DTYPE_BF16, { { 2, 130, 600 }, 3 }, -1, 1 } },
      &(add_positions_backward_attributes){ .rows = 2, .type = DTYPE_F32, .at = { 0, 1 } },
      1e-6,
      true },
    { 0 }
};

const op_def op_add_positions_backward = { .name = "add_positions_backward",
                                           .inputs = backward_inputs,
                                           .in_count = 3,
                                           .aliases = backward_aliases,
                                           .alias_count = 1,
                                           .out_count = 1,
                                           .attribute_bytes = sizeof(add_positions_backward_attributes),
                                           .infer = infer_backward,
                                           .cost = cost_backward,
                                           .cpu = add_positions_backward_cpu,
                                           .cuda = OP_CUDA(add_positions_backward_cuda),
                                           .cases = backward_cases };
