#include "ops/squared_error/squared_error.h"

#include "ops/add/add.h"

tensor_id squared_error_apply(graph *g, tensor_id prediction, tensor_id target, tensor_id scale,
                              tensor_id accumulator) {
    return graph_add(g, &op_squared_error, (tensor_id[]){ prediction, target, scale, accumulator }, 4, NULL);
}

/* All but the predictions have their wide type. */
static status check(const graph *g, const node *n) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype);
    shape number = SHAPE(1);
    TRY(op_check_input(g, n, 1, &x->shape, wide));
    TRY(op_check_input(g, n, 2, &number, wide));
    return op_check_input(g, n, 3, &number, wide);
}

static status infer(const graph *g, const node *n, tensor *out) {
    TRY(check(g, n));
    out[0] = (tensor){ .shape = SHAPE(1),
                       .dtype = (uint8_t)dtype_wide((dtype)graph_tensor(g, node_in(g, n, 0))->dtype) };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), node_in(g, n, 1), node_in(g, n, 2), dout[0] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_squared_error_backward, in, 4, NULL));
    if (want[3]) din[3] = add_gather(g, din[3], dout[0]);
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = 3 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

enum { TARGET_AND_SCALE = 1u << 1 | 1u << 2 };

static const op_input inputs[] = { { "prediction", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "target", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "scale", DTYPE_MASK_FLOAT, 1, 1, false },
                                   { "accumulator", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 3, .must = true } };

#define NUMBERS(n, low, high)                                                                                \
    { DTYPE_F32, { { n }, 1 }, low, high }
static const op_case cases[] = {
    { "batch", { NUMBERS(9, -3, 3), NUMBERS(9, -2, 2), NUMBERS(1, 0.1, 0.2) }, NULL, 0, false },
    { "many, added",
      { NUMBERS(700, -3, 3), NUMBERS(700, -2, 2), NUMBERS(1, 0.001, 0.002), NUMBERS(1, 1, 2) },
      NULL,
      0,
      false },
    { "halves",
      { { DTYPE_BF16, { { 3, 7 }, 2 }, -3, 3 }, { DTYPE_F32, { { 3, 7 }, 2 }, -2, 2 }, NUMBERS(1, 0.1, 0.2) },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_squared_error = { .name = "squared_error",
                                  .inputs = inputs,
                                  .in_count = 4,
                                  .aliases = aliases,
                                  .alias_count = 1,
                                  .out_count = 1,
                                  .constants = TARGET_AND_SCALE,
                                  .traits = OP_HALF,
                                  .infer = infer,
                                  .grad = grad,
                                  .cost = cost,
                                  .cpu = squared_error_cpu,
                                  .cuda = OP_CUDA(squared_error_cuda),
                                  .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check(g, n));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_elementwise(g, n, 2); }

static const op_input backward_inputs[] = { { "prediction", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "target", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "scale", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "dloss", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case backward_cases[] = { { "batch",
                                            { NUMBERS(700, -3, 3), NUMBERS(700, -2, 2), NUMBERS(1, 0.1, 0.2),
                                              NUMBERS(1, 1, 2) },
                                            NULL,
                                            0,
                                            true },
                                          { "halves",
                                            { { DTYPE_F16, { { 3, 7 }, 2 }, -3, 3 },
                                              { DTYPE_F32, { { 3, 7 }, 2 }, -2, 2 },
                                              NUMBERS(1, 0.1, 0.2),
                                              NUMBERS(1, 1, 2) },
                                            NULL,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_squared_error_backward = { .name = "squared_error_backward",
                                           .inputs = backward_inputs,
                                           .in_count = 4,
                                           .aliases = backward_aliases,
                                           .alias_count = 1,
                                           .out_count = 1,
                                           .infer = infer_backward,
                                           .cost = cost_backward,
                                           .cpu = squared_error_backward_cpu,
                                           .cuda = OP_CUDA(squared_error_backward_cuda),
                                           .cases = backward_cases };
