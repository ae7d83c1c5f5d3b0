#include "ops/cross_entropy/cross_entropy.h"

#include "ops/add/add.h"

tensor_id cross_entropy_apply(graph *g, tensor_id logits, tensor_id labels, tensor_id scale,
                              tensor_id accumulator) {
    return graph_add(g, &op_cross_entropy, (tensor_id[]){ logits, labels, scale, accumulator }, 4, NULL);
}

tensor_id cross_entropy_backward_apply(graph *g, cross_entropy_backward_inputs in) {
    return graph_add(g, &op_cross_entropy_backward,
                     (tensor_id[]){ in.logits, in.labels, in.scale, in.lse, in.dloss }, 5, NULL);
}

/* Labels have one dimension less than the logits, or (1) beside a single row. */
static status check_labels(const graph *g, const node *n) {
    const shape *logits = graph_shape(g, node_in(g, n, 0)), *labels = graph_shape(g, node_in(g, n, 1));
    shape expected = *logits;
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    expected.rank--;
    if (expected.rank == 0) expected = SHAPE(1);
    if (!shape_equal(labels, &expected))
        return status_set(STATUS_INVALID, "labels %s do not fit logits %s", shape_text(labels, left),
                          shape_text(logits, right));
    return STATUS_OK;
}

static status check_number(const graph *g, const node *n, uint32_t i) {
    tensor_id t = node_in(g, n, i);
    uint8_t type = (uint8_t)dtype_wide((dtype)graph_tensor(g, node_in(g, n, 0))->dtype);
    if (t && (shape_elements(graph_shape(g, t)) != 1 || graph_tensor(g, t)->dtype != type))
        return status_set(STATUS_INVALID, "'%s' must be one element of type %s", n->op->inputs[i].name,
                          dtype_name(type));
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    uint8_t type = (uint8_t)dtype_wide((dtype)graph_tensor(g, node_in(g, n, 0))->dtype);
    TRY(check_labels(g, n));
    TRY(check_number(g, n, 2));
    TRY(check_number(g, n, 3));
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = type };
    out[1] = (tensor){ .shape = *graph_shape(g, node_in(g, n, 1)), .dtype = type };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (!dout[0]) return;
    cross_entropy_backward_inputs in = { .logits = node_in(g, n, 0),
                                         .labels = node_in(g, n, 1),
                                         .scale = node_in(g, n, 2),
                                         .lse = node_out(g, n, 1),
                                         .dloss = dout[0] };
    if (want[0]) din[0] = add_gather(g, din[0], cross_entropy_backward_apply(g, in));
    if (want[3]) din[3] = add_gather(g, din[3], dout[0]);
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_functions(g, n, 0);
    cost.flops = 14 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static op_range range(const graph *g, const node *n, uint32_t input) {
    if (input != 1) return (op_range){ 0 };
    return (op_range){ .below = shape_last(graph_shape(g, node_in(g, n, 0))), .ignores = true };
}

static const op_input inputs[] = { { "logits", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "labels", DTYPE_MASK_INT, 1, 3, false },
                                   { "scale", DTYPE_MASK_FLOAT, 1, 1, false },
                                   { "accumulator", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 3, .must = true } };

#define NUMBER(low, high)                                                                                    \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
static const op_case cases[] = {
    { "batch",
      { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -3, 3 }, { DTYPE_I32, { { 3, 5 }, 2 }, 0, 67 }, NUMBER(0.05, 0.1) },
      NULL,
      0,
      false },
    { "many rows, some ignored, added",
      { { DTYPE_F32, { { 600, 9 }, 2 }, -5, 5 },
        { DTYPE_I32, { { 600 }, 1 }, -4, 9 },
        NUMBER(0.001, 0.002),
        NUMBER(1, 2) },
      NULL,
      0,
      false },
    { "all ignored",
      { { DTYPE_F32, { { 3, 9 }, 2 }, -5, 5 },
        { DTYPE_I32, { { 3 }, 1 }, CROSS_ENTROPY_IGNORE, CROSS_ENTROPY_IGNORE + 1 },
        NUMBER(1, 2) },
      NULL,
      0,
      false },
    { "wide and far",
      { { DTYPE_F32, { { 2, 9001 }, 2 }, -300, 300 }, { DTYPE_I32, { { 2 }, 1 }, 0, 9001 }, NUMBER(0.5, 1) },
      NULL,
      0,
      false },
    { "one class",
      { { DTYPE_F32, { { 1 }, 1 }, -5, 5 }, { DTYPE_I32, { { 1 }, 1 }, 0, 1 }, NUMBER(1, 2) },
      NULL,
      0,
      false },
    { "halves",
      { { DTYPE_BF16, { { 600, 90 }, 2 }, -5, 5 },
        { DTYPE_I32, { { 600 }, 1 }, -4, 90 },
        NUMBER(0.001, 0.002),
        NUMBER(1, 2) },
      NULL,
      0,
      true },
    { "wide halves",
      { { DTYPE_F16, { { 5, 23001 }, 2 }, -30, 30 }, { DTYPE_I32, { { 5 }, 1 }, 0, 23001 }, NUMBER(0.5, 1) },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_cross_entropy = { .name = "cross_entropy",
                                  .inputs = inputs,
                                  .in_count = 4,
                                  .aliases = aliases,
                                  .alias_count = 1,
                                  .out_count = 2,
                                  .constants = 1u << 2,
                                  .traits = OP_HALF | OP_LOSS,
                                  .infer = infer,
                                  .grad = grad,
                                  .cost = cost,
                                  .range = range,
                                  .cpu = cross_entropy_cpu,
                                  .cuda = OP_CUDA(cross_entropy_cuda),
                                  .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *logits = graph_tensor(g, node_in(g, n, 0)), *lse = graph_tensor(g, node_in(g, n, 3));
    TRY(check_labels(g, n));
    TRY(check_number(g, n, 2));
    TRY(check_number(g, n, 4));
    if (!shape_equal(&lse->shape, graph_shape(g, node_in(g, n, 1))) ||
        lse->dtype != (uint8_t)dtype_wide((dtype)logits->dtype))
        return status_set(STATUS_INVALID, "'lse' must have the shape of the labels");
    out[0] = (tensor){ .shape = logits->shape, .dtype = logits->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 12); }

static const op_input backward_inputs[] = { { "logits", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "labels", DTYPE_MASK_INT, 1, 3, false },
                                            { "scale", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "lse", DTYPE_MASK_FLOAT, 1, 3, false },
                                            { "dloss", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case backward_cases[] = { { "batch",
                                            { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -3, 3 },
                                              { DTYPE_I32, { { 3, 5 }, 2 }, 0, 67 },
                                              NUMBER(0.05, 0.1),
                                              { DTYPE_F32, { { 3, 5 }, 2 }, 4, 6 },
                                              NUMBER(1, 2) },
                                            NULL,
                                            0,
                                            true },
                                          { "some ignored, wide",
                                            { { DTYPE_F32, { { 30, 9001 }, 2 }, -5, 5 },
                                              { DTYPE_I32, { { 30 }, 1 }, -4000, 9010 },
                                              NUMBER(0.05, 0.1),
                                              { DTYPE_F32, { { 30 }, 1 }, 9, 11 },
                                              NUMBER(-2, -1) },
                                            NULL,
                                            0,
                                            true },
                                          { "halves",
                                            { { DTYPE_BF16, { { 600, 90 }, 2 }, -5, 5 },
                                              { DTYPE_I32, { { 600 }, 1 }, -4, 90 },
                                              NUMBER(0.05, 0.1),
                                              { DTYPE_F32, { { 600 }, 1 }, 5, 7 },
                                              NUMBER(1, 2) },
                                            NULL,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_cross_entropy_backward = { .name = "cross_entropy_backward",
                                           .inputs = backward_inputs,
                                           .in_count = 5,
                                           .aliases = backward_aliases,
                                           .alias_count = 1,
                                           .out_count = 1,
                                           .infer = infer_backward,
                                           .cost = cost_backward,
                                           .cpu = cross_entropy_backward_cpu,
                                           .cuda = OP_CUDA(cross_entropy_backward_cuda),
                                           .cases = backward_cases };
