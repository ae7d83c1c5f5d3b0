#include "ops/tanh/tanh.h"

#include "ops/add/add.h"
#include "ops/unary.h"

tensor_id tanh_apply(graph *g, tensor_id x) { return graph_add(g, &op_tanh, &x, 1, NULL); }

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_out(g, n, 0), dout[0] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_tanh_backward, in, 2, NULL));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_functions(g, n, 20); }

static const op_case cases[] = {
    { "usual", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, NULL, 1e-6, false },
    { "far", { { DTYPE_F32, { { 3, 9001 }, 2 }, -200, 200 } }, NULL, 1e-6, false },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -4, 4 } }, NULL, 1e-6, false },
    { 0 }
};

const op_def op_tanh = { .name = "tanh",
                         .inputs = unary_inputs,
                         .in_count = 1,
                         .aliases = unary_aliases,
                         .alias_count = 1,
                         .out_count = 1,
                         .traits = OP_ELEMENTWISE | OP_HALF,
                         .infer = unary_infer,
                         .grad = grad,
                         .cost = cost,
                         .cpu = tanh_cpu,
                         .cuda = OP_CUDA(tanh_cuda),
                         .cases = cases };

/* ---- the gradient ---- */

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_elementwise(g, n, 4); }

static const op_case backward_cases[] = {
    { "usual",
      { { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      NULL,
      1e-6,
      true },
    { "several pieces",
      { { DTYPE_F32, { { 3, 9001 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 9001 }, 2 }, -1, 1 } },
      NULL,
      1e-6,
      true },
    { 0 }
};

const op_def op_tanh_backward = { .name = "tanh_backward",
                                  .inputs = unary_backward_by_y,
                                  .in_count = 2,
                                  .aliases = unary_backward_aliases,
                                  .alias_count = 2,
                                  .out_count = 1,
                                  .traits = OP_ELEMENTWISE,
                                  .infer = unary_infer_backward,
                                  .cost = cost_backward,
                                  .cpu = tanh_backward_cpu,
                                  .cuda = OP_CUDA(tanh_backward_cuda),
                                  .cases = backward_cases };
