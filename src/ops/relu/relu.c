#include "ops/relu/relu.h"

#include "ops/add/add.h"
#include "ops/unary.h"

tensor_id relu_apply(graph *g, tensor_id x) { return graph_add(g, &op_relu, &x, 1, NULL); }

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_out(g, n, 0), dout[0] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_relu_backward, in, 2, NULL));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_case cases[] = { { "usual", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, NULL, 0, false },
                                 { "one element", { { DTYPE_F32, { { 1 }, 1 }, -4, -3 } }, NULL, 0, false },
                                 { 0 } };

const op_def op_relu = { .name = "relu",
                         .paper = "Nair, Hinton 2010",
                         .inputs = unary_inputs,
                         .in_count = 1,
                         .aliases = unary_aliases,
                         .alias_count = 1,
                         .out_count = 1,
                         .traits = OP_ELEMENTWISE | OP_HALF,
                         .infer = unary_infer,
                         .grad = grad,
                         .cost = cost,
                         .cpu = relu_cpu,
                         .cuda = OP_CUDA(relu_cuda),
                         .cases = cases };

/* ---- the gradient ---- */

static const op_case backward_cases[] = {
    { "usual",
      { { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "nothing passes",
      { { DTYPE_F32, { { 3, 35 }, 2 }, 0, 0 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_relu_backward = { .name = "relu_backward",
                                  .paper = "Nair, Hinton 2010",
                                  .inputs = unary_backward_by_y,
                                  .in_count = 2,
                                  .aliases = unary_backward_aliases,
                                  .alias_count = 2,
                                  .out_count = 1,
                                  .traits = OP_ELEMENTWISE,
                                  .infer = unary_infer_backward,
                                  .cost = cost,
                                  .cpu = relu_backward_cpu,
                                  .cuda = OP_CUDA(relu_backward_cuda),
                                  .cases = backward_cases };
