#include "ops/sum_squares/sum_squares.h"

tensor_id sum_squares_apply(graph *g, tensor_id x) { return graph_add(g, &op_sum_squares, &x, 1, NULL); }

static status infer(const graph *g, const node *n, tensor *out) {
    out[0] = (tensor){ .shape = SHAPE(1),
                       .dtype = (uint8_t)dtype_wide((dtype)graph_tensor(g, node_in(g, n, 0))->dtype) };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = 2 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    cost.work = 3.5 * cost.flops; /* in double precision, converted before */
    return cost;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };

static const op_case cases[] = {
    { "tiles and a rest", { { DTYPE_F32, { { 3, 41, 101 }, 3 }, -1, 1 } }, NULL, 1e-7, true },
    { "halves", { { DTYPE_BF16, { { 3, 41, 101 }, 3 }, -1, 1 } }, NULL, 1e-7, true },
    { "f16", { { DTYPE_F16, { { 3, 41, 101 }, 3 }, -1, 1 } }, NULL, 1e-7, true },
    { "one tile", { { DTYPE_F32, { { 4096 }, 1 }, -1, 1 } }, NULL, 1e-7, true },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -1, 1 } }, NULL, 1e-7, true },
    { 0 }
};

const op_def op_sum_squares = { .name = "sum_squares",
                                .inputs = inputs,
                                .in_count = 1,
                                .out_count = 1,
                                .infer = infer,
                                .cost = cost,
                                .cpu = sum_squares_cpu,
                                .cuda = OP_CUDA(sum_squares_cuda),
                                .cases = cases };
