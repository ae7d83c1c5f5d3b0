#include "ops/element_loss/element_loss.h"

#include "ops/add/add.h"

tensor_id element_loss_apply(graph *g, const element_loss_inputs *in, const element_loss_attributes *a) {
    return graph_add(g, &op_element_loss,
                     (tensor_id[]){ in->prediction, in->target, in->scale, in->accumulator }, 4, a);
}

/* Targets have the predictions' shape, and any type that is as wide or narrower; numbers have the wide one.
 */
static status check(const graph *g, const node *n) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *target = graph_tensor(g, node_in(g, n, 1));
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype);
    shape number = SHAPE(1);
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (!shape_equal(&x->shape, &target->shape) || dtype_wide((dtype)target->dtype) != (dtype)wide)
        return status_set(STATUS_INVALID, "targets %s %s do not fit predictions %s %s",
                          dtype_name(target->dtype), shape_text(&target->shape, is), dtype_name(x->dtype),
                          shape_text(&x->shape, should));
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
    if (want[0])
        din[0] = add_gather(g, din[0], graph_add(g, &op_element_loss_backward, in, 4, node_attributes(g, n)));
    if (want[3]) din[3] = add_gather(g, din[3], dout[0]);
}

static bool has_functions(const graph *g, const node *n) {
    return ((const element_loss_attributes *)node_attributes(g, n))->function == ELEMENT_LOSS_BINARY;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = has_functions(g, n) ? op_cost_functions(g, n, 0) : op_cost_elementwise(g, n, 0);
    cost.flops = (has_functions(g, n) ? 50 : 3) * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
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
static const element_loss_attributes squared = { ELEMENT_LOSS_SQUARED, 1 };
static const element_loss_attributes absolute = { ELEMENT_LOSS_ABSOLUTE, 0.25f };
static const element_loss_attributes binary = { ELEMENT_LOSS_BINARY, 0.125f };

#define HALVES(type)                                                                                         \
    { type, { { 3, 700 }, 2 }, -3, 3 }, { DTYPE_F32, { { 3, 700 }, 2 }, 0, 1 }, NUMBERS(1, 0.1, 0.2)
static const op_case cases[] = {
    { "squared", { NUMBERS(9, -3, 3), NUMBERS(9, -2, 2), NUMBERS(1, 0.1, 0.2) }, &squared, 0, false },
    { "one element", { NUMBERS(1, 2, 3), NUMBERS(1, -2, -1), NUMBERS(1, 0.1, 0.2) }, &squared, 0, false },
    { "squared, many, added",
      { NUMBERS(70000, -3, 3), NUMBERS(70000, -2, 2), NUMBERS(1, 0.00001, 0.00002), NUMBERS(1, 1, 2) },
      &squared,
      0,
      true },
    { "absolute, added",
      { NUMBERS(700, 3, 5), NUMBERS(700, -2, 2), NUMBERS(1, 0.001, 0.002), NUMBERS(1, 1, 2) },
      &absolute,
      0,
      false },
    { "absolute", { NUMBERS(700, -3, 3), NUMBERS(700, -2, 2), NUMBERS(1, 0.1, 0.2) }, &absolute, 0, true },
    { "binary", { NUMBERS(700, -3, 3), NUMBERS(700, 0, 1), NUMBERS(1, 0.01, 0.02) }, &binary, 0, false },
    { "binary, far, added",
      { NUMBERS(700, -200, 200), NUMBERS(700, 0, 1), NUMBERS(1, 0.01, 0.02), NUMBERS(1, 1, 2) },
      &binary,
      0,
      false },
    { "halves", { HALVES(DTYPE_BF16) }, &squared, 0, true },
    { "halves, absolute", { HALVES(DTYPE_F16) }, &absolute, 0, true },
    { "halves, binary", { HALVES(DTYPE_BF16) }, &binary, 0, true },
    { 0 }
};

const op_def op_element_loss = { .name = "element_loss",
                                 .inputs = inputs,
                                 .in_count = 4,
                                 .aliases = aliases,
                                 .alias_count = 1,
                                 .out_count = 1,
                                 .constants = TARGET_AND_SCALE,
                                 .attribute_bytes = sizeof(element_loss_attributes),
                                 .traits = OP_HALF | OP_LOSS,
                                 .infer = infer,
                                 .grad = grad,
                                 .cost = cost,
                                 .cpu = element_loss_cpu,
                                 .cuda = OP_CUDA(element_loss_cuda),
                                 .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check(g, n));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    return has_functions(g, n) ? op_cost_functions(g, n, 20) : op_cost_elementwise(g, n, 2);
}

static const op_input backward_inputs[] = { { "prediction", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "target", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "scale", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "dloss", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case backward_cases[] = {
    { "squared",
      { NUMBERS(700, -3, 3), NUMBERS(700, -2, 2), NUMBERS(1, 0.1, 0.2), NUMBERS(1, 1, 2) },
      &squared,
      0,
      true },
    { "absolute",
      { NUMBERS(70000, -3, 3), NUMBERS(70000, -2, 2), NUMBERS(1, 0.1, 0.2), NUMBERS(1, 1, 2) },
      &absolute,
      0,
      true },
    { "no error",
      { NUMBERS(30, 0, 0), NUMBERS(30, 0, 0), NUMBERS(1, 0.1, 0.2), NUMBERS(1, 1, 2) },
      &absolute,
      0,
      true },
    { "binary",
      { NUMBERS(700, -20, 20), NUMBERS(700, 0, 1), NUMBERS(1, 0.1, 0.2), NUMBERS(1, 1, 2) },
      &binary,
      0,
      true },
    { "halves", { HALVES(DTYPE_F16), NUMBERS(1, 1, 2) }, &squared, 0, true },
    { "halves, absolute", { HALVES(DTYPE_BF16), NUMBERS(1, 1, 2) }, &absolute, 0, true },
    { "halves, binary", { HALVES(DTYPE_BF16), NUMBERS(1, 1, 2) }, &binary, 0, true },
    { 0 }
};

const op_def op_element_loss_backward = { .name = "element_loss_backward",
                                          .inputs = backward_inputs,
                                          .in_count = 4,
                                          .aliases = backward_aliases,
                                          .alias_count = 1,
                                          .out_count = 1,
                                          .attribute_bytes = sizeof(element_loss_attributes),
                                          .infer = infer_backward,
                                          .cost = cost_backward,
                                          .cpu = element_loss_backward_cpu,
                                          .cuda = OP_CUDA(element_loss_backward_cuda),
                                          .cases = backward_cases };
