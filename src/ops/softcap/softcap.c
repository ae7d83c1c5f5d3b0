#include "ops/softcap/softcap.h"

#include "ops/add/add.h"
#include "ops/unary.h"

tensor_id softcap_apply(graph *g, tensor_id x, float cap) {
    return graph_add(g, &op_softcap, &x, 1, &(softcap_attributes){ cap });
}

tensor_id softcap_backward_apply(graph *g, tensor_id y, tensor_id dy, float cap) {
    return graph_add(g, &op_softcap_backward, (tensor_id[]){ y, dy }, 2, &(softcap_attributes){ cap });
}

static status check(const graph *g, const node *n) {
    const softcap_attributes *a = node_attributes(g, n);
    return a->cap > 0 ? STATUS_OK
                      : status_set(STATUS_INVALID, "a cap must be above 0, not %g", (double)a->cap);
}

static status infer(const graph *g, const node *n, tensor *out) {
    TRY(check(g, n));
    return unary_infer(g, n, out);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const softcap_attributes *a = node_attributes(g, n);
    if (want[0])
        din[0] = add_gather(g, din[0], softcap_backward_apply(g, node_out(g, n, 0), dout[0], a->cap));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_functions(g, n, 20); }

static const softcap_attributes small = { 2 }, large = { 50 };

static const op_case cases[] = {
    { "usual", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, &small, 2e-6, false },
    { "far", { { DTYPE_F32, { { 3, 9001 }, 2 }, -400, 400 } }, &large, 2e-5, false },
    { "near", { { DTYPE_F32, { { 100 }, 1 }, -0.5, 0.5 } }, &large, 1e-6, false },
    { "halves", { { DTYPE_BF16, { { 7, 90 }, 2 }, -100, 100 } }, &large, 0, true },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -4, 4 } }, &small, 2e-6, false },
    { 0 }
};

const op_def op_softcap = { .name = "softcap",
                            .paper = "arXiv:1611.09940",
                            .inputs = unary_inputs,
                            .in_count = 1,
                            .aliases = unary_aliases,
                            .alias_count = 1,
                            .out_count = 1,
                            .attribute_bytes = sizeof(softcap_attributes),
                            .traits = OP_ELEMENTWISE | OP_HALF,
                            .infer = infer,
                            .grad = grad,
                            .cost = cost,
                            .cpu = softcap_cpu,
                            .cuda = OP_CUDA(softcap_cuda),
                            .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    TRY(check(g, n));
    return unary_infer_backward(g, n, out);
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 4); }

static const op_case backward_cases[] = {
    { "usual",
      { { DTYPE_F32, { { 3, 35 }, 2 }, -2, 2 }, { DTYPE_F32, { { 3, 35 }, 2 }, -1, 1 } },
      &small,
      2e-6,
      true },
    { "long",
      { { DTYPE_F32, { { 3, 9001 }, 2 }, -50, 50 }, { DTYPE_F32, { { 3, 9001 }, 2 }, -1, 1 } },
      &large,
      2e-6,
      true },
    { 0 }
};

const op_def op_softcap_backward = { .name = "softcap_backward",
                                     .paper = "arXiv:1611.09940",
                                     .inputs = unary_backward_by_y,
                                     .in_count = 2,
                                     .aliases = unary_backward_aliases,
                                     .alias_count = 2,
                                     .out_count = 1,
                                     .attribute_bytes = sizeof(softcap_attributes),
                                     .traits = OP_ELEMENTWISE,
                                     .infer = infer_backward,
                                     .cost = cost_backward,
                                     .cpu = softcap_backward_cpu,
                                     .cuda = OP_CUDA(softcap_backward_cuda),
                                     .cases = backward_cases };
