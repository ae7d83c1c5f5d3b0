#include "ops/gelu/gelu.h"

#include "ops/add/add.h"
#include "ops/half_table.h"
#include "ops/unary.h"

tensor_id gelu_apply(graph *g, tensor_id x, bool tanh) {
    return graph_add(g, &op_gelu, &x, 1, &(gelu_attributes){ .tanh = tanh });
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (!want[0]) return;
    tensor_id in[] = { node_in(g, n, 0), dout[0] };
    din[0] = add_gather(g, din[0], graph_add(g, &op_gelu_backward, in, 2, node_attributes(g, n)));
}

double gelu_flops(bool tanh, bool slope) {
    static const double flops[2][2] = { { 33, 45 }, { 18, 25 } }; /* by erf, by tanh */
    return flops[tanh][slope];
}

static double flops_of(const graph *g, const node *n, bool slope) {
    bool tanh = ((const gelu_attributes *)node_attributes(g, n))->tanh != 0;
    return half_table_flops(g, n, gelu_flops(tanh, slope));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_functions(g, n, flops_of(g, n, false)); }

static const op_case cases[] = {
    { "tanh", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, &(gelu_attributes){ 1 }, 2e-6, false },
    { "erf", { { DTYPE_F32, { { 130 }, 1 }, -4, 4 } }, &(gelu_attributes){ 0 }, 2e-6, false },
    { "far", { { DTYPE_F32, { { 2, 100 }, 2 }, -100, 100 } }, &(gelu_attributes){ 1 }, 2e-6, false },
    { "far, erf", { { DTYPE_F32, { { 2, 100 }, 2 }, -100, 100 } }, &(gelu_attributes){ 0 }, 1e-7, false },
    { "below, tanh", { { DTYPE_F32, { { 9, 4001 }, 2 }, -9, -3 } }, &(gelu_attributes){ 1 }, 2e-6, false },
    { "below, erf", { { DTYPE_F32, { { 9, 4001 }, 2 }, -9, -3 } }, &(gelu_attributes){ 0 }, 1e-5, false },
    { 0 }
};

const op_def op_gelu = { .name = "gelu",
                         .paper = "arXiv:1606.08415",
                         .inputs = unary_inputs,
                         .in_count = 1,
                         .aliases = unary_aliases,
                         .alias_count = 1,
                         .out_count = 1,
                         .attribute_bytes = sizeof(gelu_attributes),
                         .traits = OP_ELEMENTWISE | OP_HALF,
                         .infer = unary_infer,
                         .grad = grad,
                         .cost = cost,
                         .cpu = gelu_cpu,
                         .cuda = OP_CUDA(gelu_cuda),
                         .cases = cases };

static const op_case backward_cases[] = {
    { "tanh",
      { { DTYPE_F32, { { 3, 35 }, 2 }, -4, 4 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      &(gelu_attributes){ 1 },
      2e-6,
      true },
    { "erf",
      { { DTYPE_F32, { { 130 }, 1 }, -4, 4 }, { DTYPE_F32, { { 130 }, 1 }, -1, 1 } },
      &(gelu_attributes){ 0 },
      2e-6,
      true },
    { "far, tanh",
      { { DTYPE_F32, { { 9, 4001 }, 2 }, -100, 100 }, { DTYPE_F32, { { 9, 4001 }, 2 }, -1, 1 } },
      &(gelu_attributes){ 1 },
      2e-6,
      true },
    { "far, erf",
      { { DTYPE_F32, { { 9, 4001 }, 2 }, -100, 100 }, { DTYPE_F32, { { 9, 4001 }, 2 }, -1, 1 } },
      &(gelu_attributes){ 0 },
      2e-6,
      true },
    { 0 }
};

static op_cost backward_cost(const graph *g, const node *n) {
    return op_cost_functions(g, n, flops_of(g, n, true));
}

const op_def op_gelu_backward = { .name = "gelu_backward",
                                  .paper = "arXiv:1606.08415",
                                  .inputs = unary_backward_by_x,
                                  .in_count = 2,
                                  .aliases = unary_backward_aliases,
                                  .alias_count = 2,
                                  .out_count = 1,
                                  .attribute_bytes = sizeof(gelu_attributes),
                                  .traits = OP_ELEMENTWISE,
                                  .infer = unary_infer_backward,
                                  .cost = backward_cost,
                                  .cpu = gelu_backward_cpu,
                                  .cuda = OP_CUDA(gelu_backward_cuda),
                                  .cases = backward_cases };
