#include "ops/move/move.h"

tensor_id move_apply(graph *g, tensor_id x, uint8_t pool) {
    tensor_id y = graph_add(g, &op_move, &x, 1, NULL);
    if (y) graph_tensor(g, y)->pool = pool;
    return y;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 0); }

static const op_input inputs[] = { { "x", 0, 1, 4, false } };

static const op_case cases[] = { { "floats", { { DTYPE_F32, { { 3, 67, 101 }, 3 }, -4, 4 } }, NULL, 0, true },
                                 { "half", { { DTYPE_BF16, { { 40001 }, 1 }, -4, 4 } }, NULL, 0, true },
                                 { 0 } };

const op_def op_move = { .name = "move",
                         .inputs = inputs,
                         .in_count = 1,
                         .out_count = 1,
                         .infer = infer,
                         .cost = cost,
                         .cpu = move_cpu,
                         .cases = cases };
