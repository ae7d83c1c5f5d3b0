#include "ops/rmsnorm/rmsnorm.h"

tensor_id rmsnorm_apply(graph *g, tensor_id x, tensor_id gamma, const rmsnorm_attributes *a) {
    return graph_add(g, &op_rmsnorm, (tensor_id[]){ x, gamma }, 2, a);
}

tensor_id rmsnorm_backward_apply(graph *g, rmsnorm_backward_inputs in, float plus) {
    tensor_id ids[] = { in.x, in.gamma, in.rstd, in.dy, in.accumulator_dx, in.accumulator_dgamma };
    return graph_add(g, &op_rmsnorm_backward, ids, 6, &(rmsnorm_backward_attributes){ plus });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const rmsnorm_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype), type = a->type ? (uint8_t)a->type : x->dtype;
    if (dtype_wide((dtype)type) != dtype_wide((dtype)x->dtype))
        return status_set(STATUS_INVALID, "%s cannot become %s", dtype_name(x->dtype), dtype_name(type));
    shape width = SHAPE(shape_last(&x->shape)), rows = shape_of_rows(&x->shape);
    TRY(op_check_input(g, n, 1, &width, wide));
    out[0] = (tensor){ .shape = x->shape, .dtype = type };
    out[1] = (tensor){ .shape = rows, .dtype = wide };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (!dout[0]) return;
    const rmsnorm_attributes *a = node_attributes(g, n);
    float plus = a->plus;
    tensor_id dx = rmsnorm_backward_apply(g,
                                          (rmsnorm_backward_inputs){ .x = node_in(g, n, 0),
                                                                     .gamma = node_in(g, n, 1),
                                                                     .rstd = node_out(g, n, 1),
                                                                     .dy = dout[0],
                                                                     .accumulator_dx = din[0],
                                                                     .accumulator_dgamma = din[1] },
                                          plus);
    for (uint32_t i = 0; i < 2; i++)
        if (want[i]) din[i] = dx ? dx + i : 0;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = 4 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "gamma", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

static const rmsnorm_attributes usual = { .eps = 1e-6f }, shifted = { .eps = 1e-6f, .plus = 1 };

static const op_case cases[] = {
    { "batch",
      { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -2, 3 }, { DTYPE_F32, { { 67 }, 1 }, -1, 1 } },
      &usual,
      0,
      false },
    { "many rows",
      { { DTYPE_F32, { { 300, 33 }, 2 }, 5, 6 }, { DTYPE_F32, { { 33 }, 1 }, -1, 1 } },
      &usual,
      0,
      false },
    { "as wide as rows are kept",
      { { DTYPE_F32, { { 11, 4096 }, 2 }, -2, 3 }, { DTYPE_F32, { { 4096 }, 1 }, -1, 1 } },
      &shifted,
      0,
      true },
    { "wider",
      { { DTYPE_F32, { { 3, 4200 }, 2 }, -2, 3 }, { DTYPE_F32, { { 4200 }, 1 }, -1, 1 } },
      &usual,
      0,
      true },
    { "scale around 1",
      { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -2, 3 }, { DTYPE_F32, { { 67 }, 1 }, -1, 1 } },
      &shifted,
      0,
      false },
    { "one row",
      { { DTYPE_F32, { { 769 }, 1 }, -2, 3 }, { DTYPE_F32, { { 769 }, 1 }, -1, 1 } },
      &usual,
      0,
      false },
    { "one element",
      { { DTYPE_F32, { { 1 }, 1 }, 2, 3 }, { DTYPE_F32, { { 1 }, 1 }, -1, 1 } },
      &usual,
      0,
      false },
    { "bf16",
      { { DTYPE_BF16, { { 40, 770 }, 2 }, -2, 3 }, { DTYPE_F32, { { 770 }, 1 }, -1, 1 } },
      &usual,
      0,
      true },
    { "wide to bf16",
      { { DTYPE_F32, { { 9, 700 }, 2 }, -2, 3 }, { DTYPE_F32, { { 700 }, 1 }, -1, 1 } },
      &(rmsnorm_attributes){ 1e-5f, DTYPE_BF16, 0 },
      0,
      true },
    { "halves",
      { { DTYPE_F16, { { 300, 770 }, 2 }, -2, 3 }, { DTYPE_F32, { { 770 }, 1 }, -1, 1 } },
      &usual,
      0,
      true },
    { 0 }
};

const op_def op_rmsnorm = { .name = "rmsnorm",
                            .paper = "arXiv:1910.07467",
                            .inputs = inputs,
                            .in_count = 2,
                            .aliases = aliases,
                            .alias_count = 1,
                            .out_count = 2,
                            .attribute_bytes = sizeof(rmsnorm_attributes),
                            .infer = infer,
                            .grad = grad,
                            .cost = cost,
                            .cpu = rmsnorm_cpu,
                            .cuda = OP_CUDA(rmsnorm_cuda),
                            .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape width = SHAPE(shape_last(&x->shape)), rows = shape_of_rows(&x->shape);
    const shape *expected[] = { &x->shape, &width, &rows, &x->shape, &x->shape, &width };
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype), dy = graph_tensor(g, node_in(g, n, 3))->dtype;
    const uint8_t types[] = { 0, wide, wide, dtype_wide((dtype)dy) == wide ? dy : wide, x->dtype, wide };
    for (uint32_t i = 1; i < 6; i++) TRY(op_check_input(g, n, i, expected[i], types[i]));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[1] = (tensor){ .shape = width, .dtype = wide };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = 11 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "gamma", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "rstd", DTYPE_MASK_FLOAT, 1, 3, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "accumulator_dx", DTYPE_MASK_FLOAT, 1, 4, true },
                                            { "accumulator_dgamma", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 4, .must = false },
                                             { .out = 0, .in = 3, .must = false },
                                             { .out = 0, .in = 0, .must = false },
                                             { .out = 1, .in = 5, .must = true } };

static const rmsnorm_backward_attributes around_zero = { 0 }, around_one = { 1 };

static const op_case backward_cases[] = { { "plain",
                                            { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -2, 3 },
                                              { DTYPE_F32, { { 67 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 3, 5 }, 2 }, 0.5, 2 },
                                              { DTYPE_F32, { { 3, 5, 67 }, 3 }, -1, 1 } },
                                            &around_one,
                                            0,
                                            true },
                                          { "some rows at a time",
                                            { { DTYPE_F32, { { 70, 1300 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 1300 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 70 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 70, 1300 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 70, 1300 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, -1, 1 } },
                                            &around_one,
                                            0,
                                            true },
                                          { "as wide as rows are kept",
                                            { { DTYPE_F32, { { 35, 4096 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 4096 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 35, 4096 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 35, 4096 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 4096 }, 1 }, -1, 1 } },
                                            &around_one,
                                            0,
                                            true },
                                          { "wider",
                                            { { DTYPE_F32, { { 40, 4200 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 4200 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 40 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 40, 4200 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 40, 4200 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 4200 }, 1 }, -1, 1 } },
                                            &around_one,
                                            0,
                                            true },
                                          { "accumulators, many rows",
                                            { { DTYPE_F32, { { 1300, 35 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 1300, 35 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 1300, 35 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 } },
                                            &around_zero,
                                            0,
                                            true },
                                          { "one row, wide",
                                            { { DTYPE_F32, { { 1100 }, 1 }, -2, 3 },
                                              { DTYPE_F32, { { 1100 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 1100 }, 1 }, -1, 1 },
                                              { DTYPE_NONE },
                                              { DTYPE_F32, { { 1100 }, 1 }, -1, 1 } },
                                            &around_one,
                                            0,
                                            true },
                                          { "halves",
                                            { { DTYPE_BF16, { { 1300, 35 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, 0.5, 2 },
                                              { DTYPE_BF16, { { 1300, 35 }, 2 }, -1, 1 },
                                              { DTYPE_NONE },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 } },
                                            &around_zero,
                                            0,
                                            true },
                                          { "dy of bf16",
                                            { { DTYPE_F32, { { 71, 300 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 300 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 71 }, 1 }, 0.5, 2 },
                                              { DTYPE_BF16, { { 71, 300 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 71, 300 }, 2 }, -1, 1 } },
                                            &around_zero,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_rmsnorm_backward = { .name = "rmsnorm_backward",
                                     .paper = "arXiv:1910.07467",
                                     .inputs = backward_inputs,
                                     .in_count = 6,
                                     .aliases = backward_aliases,
                                     .alias_count = 4,
                                     .out_count = 2,
                                     .attribute_bytes = sizeof(rmsnorm_backward_attributes),
                                     .infer = infer_backward,
                                     .cost = cost_backward,
                                     .cpu = rmsnorm_backward_cpu,
                                     .cuda = OP_CUDA(rmsnorm_backward_cuda),
                                     .cases = backward_cases };
