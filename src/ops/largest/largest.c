#include "ops/largest/largest.h"

tensor_id largest_apply(graph *g, tensor_id x, tensor_id before) {
    return graph_add(g, &op_largest, (tensor_id[]){ x, before }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    if (shape_elements(graph_shape(g, node_in(g, n, 1))) != 1)
        return status_set(STATUS_INVALID, "what was found before is one number");
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = DTYPE_F32 };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return c;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_HALF | 1u << DTYPE_F32, 1, 4, false },
                                   { "before", 1u << DTYPE_F32, 1, 1, false } };
static const op_alias aliases[] = { { .out = 0, .in = 1, .must = true } };

#define ONE(low, high)                                                                                       \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
static const op_case cases[] = {
    { "below zero", { { DTYPE_F32, { { 3, 41, 1001 }, 3 }, -3, 1 }, ONE(0, 0) }, NULL, 0, true },
    { "found before", { { DTYPE_F32, { { 70, 3 }, 2 }, -1, 1 }, ONE(2, 3) }, NULL, 0, true },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -1, 1 }, ONE(0, 0) }, NULL, 0, true },
    { "halves", { { DTYPE_BF16, { { 40000 }, 1 }, -1, 1 }, ONE(0, 0) }, NULL, 0, true },
    { "f16", { { DTYPE_F16, { { 40000 }, 1 }, -1, 1 }, ONE(0, 0) }, NULL, 0, true },
    { 0 }
};

const op_def op_largest = { .name = "largest",
                            .inputs = inputs,
                            .in_count = 2,
                            .aliases = aliases,
                            .alias_count = 1,
                            .out_count = 1,
                            .constants = 1u << 1,
                            .infer = infer,
                            .cost = cost,
                            .cpu = largest_cpu,
                            .cuda = OP_CUDA(largest_cuda),
                            .cases = cases };
