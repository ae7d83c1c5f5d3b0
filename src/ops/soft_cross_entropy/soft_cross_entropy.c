#include "ops/soft_cross_entropy/soft_cross_entropy.h"

#include "ops/add/add.h"

tensor_id soft_cross_entropy_apply(graph *g, const soft_cross_entropy_inputs *in, float weight) {
    return graph_add(g, &op_soft_cross_entropy,
                     (tensor_id[]){ in->logits, in->targets, in->scale, in->accumulator }, 4,
                     &(soft_cross_entropy_attributes){ weight });
}

static shape rows_of(const shape *logits) {
    shape rows = *logits;
    rows.rank--;
    return rows.rank ? rows : SHAPE(1);
}

static uint8_t wide_of(const graph *g, const node *n) {
    return (uint8_t)dtype_wide((dtype)graph_tensor(g, node_in(g, n, 0))->dtype);
}

static status check_targets(const graph *g, const node *n) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *target = graph_tensor(g, node_in(g, n, 1));
    shape number = SHAPE(1);
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (!shape_equal(&x->shape, &target->shape) || (uint8_t)dtype_wide((dtype)target->dtype) != wide_of(g, n))
        return status_set(STATUS_INVALID, "targets %s %s do not fit logits %s %s", dtype_name(target->dtype),
                          shape_text(&target->shape, is), dtype_name(x->dtype),
                          shape_text(&x->shape, should));
    return op_check_input(g, n, 2, &number, wide_of(g, n));
}

static status infer(const graph *g, const node *n, tensor *out) {
    shape number = SHAPE(1), rows = rows_of(graph_shape(g, node_in(g, n, 0)));
    TRY(check_targets(g, n));
    TRY(op_check_input(g, n, 3, &number, wide_of(g, n)));
    out[0] = (tensor){ .shape = number, .dtype = wide_of(g, n) };
    out[1] = (tensor){ .shape = rows, .dtype = wide_of(g, n) };
    out[2] = out[1];
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (!dout[0]) return;
    tensor_id in[] = { node_in(g, n, 0), node_in(g, n, 1), node_in(g, n, 2), node_out(g, n, 1), dout[0] };
    if (want[0])
        din[0] = add_gather(g, din[0],
                            graph_add(g, &op_soft_cross_entropy_backward, in, 5, node_attributes(g, n)));
    if (want[3]) din[3] = add_gather(g, din[3], dout[0]);
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_functions(g, n, 0);
    cost.flops = 18 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

enum { TARGETS_AND_SCALE = 1u << 1 | 1u << 2 };

static const op_input inputs[] = { { "logits", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "targets", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "scale", DTYPE_MASK_FLOAT, 1, 1, false },
                                   { "accumulator", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 3, .must = true } };

static const soft_cross_entropy_attributes whole = { 1 }, third = { 1.0f / 3 };

#define NUMBER(low, high)                                                                                    \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
#define PAIR(type, far, share, ...)                                                                          \
    { type, { __VA_ARGS__ }, -(far), far }, { DTYPE_F32, { __VA_ARGS__ }, 0, share }
static const op_case cases[] = {
    { "batch", { PAIR(DTYPE_F32, 3, 0.03, { 3, 5, 67 }, 3), NUMBER(0.05, 0.1) }, &third, 0, false },
    { "many rows, added",
      { PAIR(DTYPE_F32, 5, 0.2, { 600, 9 }, 2), NUMBER(0.001, 0.002), NUMBER(1, 2) },
      &whole,
      0,
      false },
    { "wide and far", { PAIR(DTYPE_F32, 300, 0.001, { 2, 9001 }, 2), NUMBER(0.5, 1) }, &whole, 0, false },
    { "one class", { PAIR(DTYPE_F32, 5, 1, { 1 }, 1), NUMBER(1, 2) }, &whole, 0, true },
    { "halves",
      { PAIR(DTYPE_BF16, 5, 0.02, { 600, 90 }, 2), NUMBER(0.01, 0.02), NUMBER(1, 2) },
      &third,
      0,
      true },
    { 0 }
};

const op_def op_soft_cross_entropy = { .name = "soft_cross_entropy",
                                       .inputs = inputs,
                                       .in_count = 4,
                                       .aliases = aliases,
                                       .alias_count = 1,
                                       .out_count = 3,
                                       .constants = TARGETS_AND_SCALE,
                                       .attribute_bytes = sizeof(soft_cross_entropy_attributes),
                                       .traits = OP_HALF | OP_LOSS,
                                       .infer = infer,
                                       .grad = grad,
                                       .cost = cost,
                                       .cpu = soft_cross_entropy_cpu,
                                       .cuda = OP_CUDA(soft_cross_entropy_cuda),
                                       .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *logits = graph_tensor(g, node_in(g, n, 0));
    shape number = SHAPE(1), rows = rows_of(&logits->shape);
    TRY(check_targets(g, n));
    TRY(op_check_input(g, n, 3, &rows, wide_of(g, n)));
    TRY(op_check_input(g, n, 4, &number, wide_of(g, n)));
    out[0] = (tensor){ .shape = logits->shape, .dtype = logits->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 15); }

static const op_input backward_inputs[] = { { "logits", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "targets", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "scale", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "lse", DTYPE_MASK_FLOAT, 1, 3, false },
                                            { "dloss", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false } };

#define LSE(low, high, ...)                                                                                  \
    { DTYPE_F32, { __VA_ARGS__ }, low, high }
static const op_case backward_cases[] = {
    { "batch",
      { PAIR(DTYPE_F32, 3, 0.03, { 3, 5, 67 }, 3), NUMBER(0.05, 0.1), LSE(4, 6, { 3, 5 }, 2), NUMBER(1, 2) },
      &third,
      0,
      true },
    { "wide",
      { PAIR(DTYPE_F32, 5, 0.001, { 30, 9001 }, 2), NUMBER(0.05, 0.1), LSE(9, 11, { 30 }, 1),
        NUMBER(-2, -1) },
      &whole,
      0,
      true },
    { "halves",
      { PAIR(DTYPE_BF16, 5, 0.02, { 600, 90 }, 2), NUMBER(0.05, 0.1), LSE(5, 7, { 600 }, 1), NUMBER(1, 2) },
      &whole,
      0,
      true },
    { 0 }
};

const op_def op_soft_cross_entropy_backward = { .name = "soft_cross_entropy_backward",
                                                .inputs = backward_inputs,
                                                .in_count = 5,
                                                .aliases = backward_aliases,
                                                .alias_count = 1,
                                                .out_count = 1,
                                                .attribute_bytes = sizeof(soft_cross_entropy_attributes),
                                                .infer = infer_backward,
                                                .cost = cost_backward,
                                                .cpu = soft_cross_entropy_backward_cpu,
                                                .cuda = OP_CUDA(soft_cross_entropy_backward_cuda),
                                                .cases = backward_cases };
