#include "ops/clamp/clamp.h"

#include "ops/add/add.h"
#include "ops/unary.h"

tensor_id clamp_apply(graph *g, tensor_id x, float bound) {
    return graph_add(g, &op_clamp, &x, 1, &(clamp_attributes){ bound });
}

static status check(const graph *g, const node *n) {
    const clamp_attributes *a = node_attributes(g, n);
    return a->bound > 0 ? STATUS_OK
                        : status_set(STATUS_INVALID, "a bound must be above 0, not %g", (double)a->bound);
}

static status infer(const graph *g, const node *n, tensor *out) {
    TRY(check(g, n));
    return unary_infer(g, n, out);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    clamp_attributes a = *(const clamp_attributes *)node_attributes(g, n);
    tensor_id in[] = { node_in(g, n, 0), dout[0] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_clamp_backward, in, 2, &a));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 2); }

static const clamp_attributes small = { 2 }, large = { 50 };

static const op_case cases[] = {
    { "usual", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, &small, 0, false },
    { "within", { { DTYPE_F32, { { 3, 9001 }, 2 }, -4, 4 } }, &large, 0, false },
    { "halves", { { DTYPE_BF16, { { 7, 90 }, 2 }, -100, 100 } }, &large, 0, true },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, 3, 4 } }, &small, 0, false },
    { 0 }
};

const op_def op_clamp = { .name = "clamp",
                          .paper = "arXiv:2402.00838",
                          .inputs = unary_inputs,
                          .in_count = 1,
                          .aliases = unary_aliases,
                          .alias_count = 1,
                          .out_count = 1,
                          .attribute_bytes = sizeof(clamp_attributes),
                          .traits = OP_ELEMENTWISE | OP_HALF,
                          .infer = infer,
                          .grad = grad,
                          .cost = cost,
                          .cpu = clamp_cpu,
                          .cuda = OP_CUDA(clamp_cuda),
                          .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    TRY(check(g, n));
    return unary_infer_backward(g, n, out);
}

static const op_case backward_cases[] = {
    { "usual",
      { { DTYPE_F32, { { 3, 35 }, 2 }, -4, 4 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      &small,
      0,
      true },
    { "at the bound",
      { { DTYPE_F32, { { 3, 35 }, 2 }, 2, 2 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      &small,
      0,
      true },
    { "nothing passes",
      { { DTYPE_F32, { { 3, 35 }, 2 }, 3, 4 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      &small,
      0,
      true },
    { 0 }
};

const op_def op_clamp_backward = { .name = "clamp_backward",
                                   .paper = "arXiv:2402.00838",
                                   .inputs = unary_backward_by_x,
                                   .in_count = 2,
                                   .aliases = unary_backward_aliases,
                                   .alias_count = 2,
                                   .out_count = 1,
                                   .attribute_bytes = sizeof(clamp_attributes),
                                   .traits = OP_ELEMENTWISE,
                                   .infer = infer_backward,
                                   .cost = cost,
                                   .cpu = clamp_backward_cpu,
                                   .cuda = OP_CUDA(clamp_backward_cuda),
                                   .cases = backward_cases };
