#include "ops/silu/silu.h"

#include "ops/add/add.h"
#include "ops/half_table.h"
#include "ops/unary.h"

tensor_id silu_apply(graph *g, tensor_id x) { return graph_add(g, &op_silu, &x, 1, NULL); }

tensor_id silu_backward_apply(graph *g, tensor_id x, tensor_id dy) {
    return graph_add(g, &op_silu_backward, (tensor_id[]){ x, dy }, 2, NULL);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (want[0]) din[0] = add_gather(g, din[0], silu_backward_apply(g, node_in(g, n, 0), dout[0]));
}

static op_cost cost(const graph *g, const node *n) {
    return op_cost_functions(g, n, half_table_flops(g, n, 20));
}

static const op_case cases[] = {
    { "usual", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, NULL, 2e-6, false },
    { "far", { { DTYPE_F32, { { 3, 9001 }, 2 }, -200, 200 } }, NULL, 2e-6, false },
    { "below", { { DTYPE_F32, { { 100 }, 1 }, -30, -10 } }, NULL, 2e-6, false },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -4, 4 } }, NULL, 2e-6, false },
    { 0 }
};

const op_def op_silu = { .name = "silu",
                         .paper = "arXiv:1606.08415, arXiv:1710.05941",
                         .inputs = unary_inputs,
                         .in_count = 1,
                         .aliases = unary_aliases,
                         .alias_count = 1,
                         .out_count = 1,
                         .traits = OP_ELEMENTWISE | OP_HALF,
                         .infer = unary_infer,
                         .grad = grad,
                         .cost = cost,
                         .cpu = silu_cpu,
                         .cuda = OP_CUDA(silu_cuda),
                         .cases = cases };

/* ---- the gradient ---- */

static op_cost cost_backward(const graph *g, const node *n) {
    return op_cost_functions(g, n, half_table_flops(g, n, 24));
}

static const op_case backward_cases[] = {
    { "usual",
      { { DTYPE_F32, { { 3, 35 }, 2 }, -4, 4 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      NULL,
      2e-6,
      true },
    { "far",
      { { DTYPE_F32, { { 3, 9001 }, 2 }, -200, 200 }, { DTYPE_F32, { { 3, 9001 }, 2 }, -1, 1 } },
      NULL,
      2e-6,
      true },
    { 0 }
};

const op_def op_silu_backward = { .name = "silu_backward",
                                  .paper = "arXiv:1606.08415, arXiv:1710.05941",
                                  .inputs = unary_backward_by_x,
                                  .in_count = 2,
                                  .aliases = unary_backward_aliases,
                                  .alias_count = 2,
                                  .out_count = 1,
                                  .traits = OP_ELEMENTWISE,
                                  .infer = unary_infer_backward,
                                  .cost = cost_backward,
                                  .cpu = silu_backward_cpu,
                                  .cuda = OP_CUDA(silu_backward_cuda),
                                  .cases = backward_cases };
