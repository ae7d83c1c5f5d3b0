#include "ops/layernorm/layernorm.h"

tensor_id layernorm_apply(graph *g, tensor_id x, tensor_id gamma, tensor_id beta, float eps) {
    return graph_add(g, &op_layernorm, (tensor_id[]){ x, gamma, beta }, 3,
                     &(layernorm_attributes){ .eps = eps });
}

tensor_id layernorm_backward_apply(graph *g, layernorm_backward_inputs in) {
    tensor_id ids[] = { in.x,
                        in.gamma,
                        in.mean,
                        in.rstd,
                        in.dy,
                        in.accumulator_dx,
                        in.accumulator_dgamma,
                        in.accumulator_dbeta };
    return graph_add(g, &op_layernorm_backward, ids, 8, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const layernorm_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype), type = a->type ? (uint8_t)a->type : x->dtype;
    if (dtype_wide((dtype)type) != dtype_wide((dtype)x->dtype))
        return status_set(STATUS_INVALID, "%s cannot become %s", dtype_name(x->dtype), dtype_name(type));
    shape width = SHAPE(shape_last(&x->shape)), rows = shape_of_rows(&x->shape);
    TRY(op_check_input(g, n, 1, &width, wide));
    TRY(op_check_input(g, n, 2, &width, wide));
    out[0] = (tensor){ .shape = x->shape, .dtype = type };
    out[1] = out[2] = (tensor){ .shape = rows, .dtype = wide };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (!dout[0]) return;
    tensor_id dx = layernorm_backward_apply(g, (layernorm_backward_inputs){ .x = node_in(g, n, 0),
                                                                            .gamma = node_in(g, n, 1),
                                                                            .mean = node_out(g, n, 1),
                                                                            .rstd = node_out(g, n, 2),
                                                                            .dy = dout[0],
                                                                            .accumulator_dx = din[0],
                                                                            .accumulator_dgamma = din[1],
                                                                            .accumulator_dbeta = din[2] });
    for (uint32_t i = 0; i < 3; i++)
        if (want[i]) din[i] = dx ? dx + i : 0;
}

/* A row's sums, one after the other and each ending in a single number, take as long as some thousand
 * independent operations. */
static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    const shape *x = graph_shape(g, node_in(g, n, 0));
    cost.flops = 8 * (double)shape_elements(x);
    cost.work = 7 * (double)shape_elements(x) + 4500 * (double)shape_rows(x);
    return cost;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "gamma", DTYPE_MASK_FLOAT, 1, 1, false },
                                   { "beta", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

#define EPS                                                                                                  \
    &(layernorm_attributes) { 1e-5f, 0 }
static const op_case cases[] = {
    { "batch",
      { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -2, 3 },
        { DTYPE_F32, { { 67 }, 1 }, -1, 1 },
        { DTYPE_F32, { { 67 }, 1 }, -1, 1 } },
      EPS,
      0,
      false },
    { "no beta, many rows",
      { { DTYPE_F32, { { 300, 33 }, 2 }, 5, 6 }, { DTYPE_F32, { { 33 }, 1 }, -1, 1 } },
      EPS,
      0,
      false },
    { "one row",
      { { DTYPE_F32, { { 769 }, 1 }, -2, 3 }, { DTYPE_F32, { { 769 }, 1 }, -1, 1 } },
      EPS,
      0,
      false },
    { "one element",
      { { DTYPE_F32, { { 1 }, 1 }, -2, 3 },
        { DTYPE_F32, { { 1 }, 1 }, -1, 1 },
        { DTYPE_F32, { { 1 }, 1 }, -1, 1 } },
      EPS,
      0,
      false },
    { "halves",
      { { DTYPE_BF16, { { 300, 770 }, 2 }, -2, 3 },
        { DTYPE_F32, { { 770 }, 1 }, -1, 1 },
        { DTYPE_F32, { { 770 }, 1 }, -1, 1 } },
      EPS,
      0,
      true },
    { "as wide as rows are kept",
      { { DTYPE_F32, { { 11, 4096 }, 2 }, -2, 3 },
        { DTYPE_F32, { { 4096 }, 1 }, -1, 1 },
        { DTYPE_F32, { { 4096 }, 1 }, -1, 1 } },
      EPS,
      0,
      true },
    { "wider",
      { { DTYPE_F32, { { 3, 4200 }, 2 }, -2, 3 },
        { DTYPE_F32, { { 4200 }, 1 }, -1, 1 },
        { DTYPE_F32, { { 4200 }, 1 }, -1, 1 } },
      EPS,
      0,
      true },
    { "wide to bf16",
      { { DTYPE_F32, { { 9, 700 }, 2 }, -2, 3 }, { DTYPE_F32, { { 700 }, 1 }, -1, 1 } },
      &(layernorm_attributes){ 1e-5f, DTYPE_BF16 },
      0,
      true },
    { "wide to f16",
      { { DTYPE_F32, { { 5, 33 }, 2 }, -2, 3 }, { DTYPE_F32, { { 33 }, 1 }, -1, 1 } },
      &(layernorm_attributes){ 1e-5f, DTYPE_F16 },
      0,
      true },
    { 0 }
};

const op_def op_layernorm = { .name = "layernorm",
                              .paper = "arXiv:1607.06450",
                              .inputs = inputs,
                              .in_count = 3,
                              .aliases = aliases,
                              .alias_count = 1,
                              .out_count = 3,
                              .attribute_bytes = sizeof(layernorm_attributes),
                              .infer = infer,
                              .grad = grad,
                              .cost = cost,
                              .cpu = layernorm_cpu,
                              .cuda = OP_CUDA(layernorm_cuda),
                              .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape width = SHAPE(shape_last(&x->shape)), rows = shape_of_rows(&x->shape);
    const shape *expected[] = { &x->shape, &width, &rows, &rows, &x->shape, &x->shape, &width, &width };
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype), dy = graph_tensor(g, node_in(g, n, 4))->dtype;
    const uint8_t types[] = { 0,        wide, wide, wide, dtype_wide((dtype)dy) == wide ? dy : wide,
                              x->dtype, wide, wide };
    for (uint32_t i = 1; i < 8; i++) TRY(op_check_input(g, n, i, expected[i], types[i]));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[1] = out[2] = (tensor){ .shape = width, .dtype = wide };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    const shape *x = graph_shape(g, node_in(g, n, 0));
    cost.flops = 14 * (double)shape_elements(x);
    cost.work = 13 * (double)shape_elements(x) + 2400 * (double)shape_rows(x);
    return cost;
}

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "gamma", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "mean", DTYPE_MASK_FLOAT, 1, 3, false },
                                            { "rstd", DTYPE_MASK_FLOAT, 1, 3, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "accumulator_dx", DTYPE_MASK_FLOAT, 1, 4, true },
                                            { "accumulator_dgamma", DTYPE_MASK_FLOAT, 1, 1, true },
                                            { "accumulator_dbeta", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 5, .must = false },
                                             { .out = 0, .in = 4, .must = false },
                                             { .out = 0, .in = 0, .must = false },
                                             { .out = 1, .in = 6, .must = true },
                                             { .out = 2, .in = 7, .must = true } };

static const op_case backward_cases[] = { { "plain",
                                            { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -2, 3 },
                                              { DTYPE_F32, { { 67 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 3, 5 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 3, 5 }, 2 }, 0.5, 2 },
                                              { DTYPE_F32, { { 3, 5, 67 }, 3 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "accumulators, many rows",
                                            { { DTYPE_F32, { { 1300, 35 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 1300, 35 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 1300, 35 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "some rows at a time",
                                            { { DTYPE_F32, { { 70, 1300 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 1300 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 70 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 70 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 70, 1300 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 70, 1300 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "as wide as rows are kept",
                                            { { DTYPE_F32, { { 35, 4096 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 4096 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 35, 4096 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 35, 4096 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 4096 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 4096 }, 1 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "wider",
                                            { { DTYPE_F32, { { 40, 4200 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 4200 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 40 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 40 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 40, 4200 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 40, 4200 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 4200 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 4200 }, 1 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "one row, wide",
                                            { { DTYPE_F32, { { 1100 }, 1 }, -2, 3 },
                                              { DTYPE_F32, { { 1100 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1 }, 1 }, 0.5, 2 },
                                              { DTYPE_F32, { { 1100 }, 1 }, -1, 1 },
                                              { DTYPE_NONE },
                                              { DTYPE_F32, { { 1100 }, 1 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "halves",
                                            { { DTYPE_BF16, { { 1300, 35 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 1300 }, 1 }, 0.5, 2 },
                                              { DTYPE_BF16, { { 1300, 35 }, 2 }, -1, 1 },
                                              { DTYPE_BF16, { { 1300, 35 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 35 }, 1 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "dy of bf16",
                                            { { DTYPE_F32, { { 71, 300 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 300 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 71 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 71 }, 1 }, 0.5, 2 },
                                              { DTYPE_BF16, { { 71, 300 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 71, 300 }, 2 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "narrow dy",
                                            { { DTYPE_F32, { { 70, 1035 }, 2 }, -2, 3 },
                                              { DTYPE_F32, { { 1035 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 70 }, 1 }, -1, 1 },
                                              { DTYPE_F32, { { 70 }, 1 }, 0.5, 2 },
                                              { DTYPE_F16, { { 70, 1035 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 70, 1035 }, 2 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_layernorm_backward = { .name = "layernorm_backward",
                                       .paper = "arXiv:1607.06450",
                                       .inputs = backward_inputs,
                                       .in_count = 8,
                                       .aliases = backward_aliases,
                                       .alias_count = 5,
                                       .out_count = 3,
                                       .infer = infer_backward,
                                       .cost = cost_backward,
                                       .cpu = layernorm_backward_cpu,
                                       .cuda = OP_CUDA(layernorm_backward_cuda),
                                       .cases = backward_cases };
