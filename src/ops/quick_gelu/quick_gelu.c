#include "ops/quick_gelu/quick_gelu.h"

#include "ops/add/add.h"
#include "ops/half_table.h"
#include "ops/unary.h"

tensor_id quick_gelu_apply(graph *g, tensor_id x) { return graph_add(g, &op_quick_gelu, &x, 1, NULL); }

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), dout[0] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_quick_gelu_backward, in, 2, NULL));
}

static op_cost cost(const graph *g, const node *n) {
    return op_cost_functions(g, n, half_table_flops(g, n, 21));
}

static const op_case cases[] = { { "usual", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, NULL, 0, false },
                                 { "one element", { { DTYPE_F32, { { 1 }, 1 }, -4, -3 } }, NULL, 0, false },
                                 { 0 } };

const op_def op_quick_gelu = { .name = "quick_gelu",
                               .paper = "arXiv:1606.08415",
                               .inputs = unary_inputs,
                               .in_count = 1,
                               .aliases = unary_aliases,
                               .alias_count = 1,
                               .out_count = 1,
                               .traits = OP_ELEMENTWISE | OP_HALF,
                               .infer = unary_infer,
                               .grad = grad,
                               .cost = cost,
                               .cpu = quick_gelu_cpu,
                               .cuda = OP_CUDA(quick_gelu_cuda),
                               .cases = cases };

/* ---- the gradient ---- */

static const op_case backward_cases[] = { { "usual",
                                            { { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 },
                                              { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_quick_gelu_backward = { .name = "quick_gelu_backward",
                                        .paper = "arXiv:1606.08415",
                                        .inputs = unary_backward_by_x,
                                        .in_count = 2,
                                        .aliases = unary_backward_aliases,
                                        .alias_count = 2,
                                        .out_count = 1,
                                        .traits = OP_ELEMENTWISE,
                                        .infer = unary_infer_backward,
                                        .cost = cost,
                                        .cpu = quick_gelu_backward_cpu,
                                        .cuda = OP_CUDA(quick_gelu_backward_cuda),
                                        .cases = backward_cases };
