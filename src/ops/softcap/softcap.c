#include "ops/softcap/softcap.h"

#include "ops/add/add.h"

tensor_id softcap_apply(graph *g, tensor_id x, float cap) {
    return graph_add(g, &op_softcap, &x, 1, &(softcap_attributes){ cap });
}

tensor_id softcap_backward_apply(graph *g, tensor_id y, tensor_id dy, float cap) {
    return graph_add(g, &op_softcap_backward, (tensor_id[]){ y, dy }, 2, &(softcap_attributes){ cap });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    const softcap_attributes *a = node_attributes(g, n);
    if (!(a->cap > 0)) return status_set(STATUS_INVALID, "a cap must be above 0, not %g", (double)a->cap);
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const softcap_attributes *a = node_attributes(g, n);
    if (want[0])
        din[0] = add_gather(g, din[0], softcap_backward_apply(g, node_out(g, n, 0), dout[0], a->cap));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_functions(g, n, 20); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };
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
                            .inputs = inputs,
                            .in_count = 1,
                            .aliases = aliases,
                            .alias_count = 1,
                            .out_count = 1,
                            .attribute_bytes = sizeof(softcap_attributes),
                            .traits = OP_ELEMENTWISE | OP_HALF,
                            .infer = infer,
                            .grad = grad,
                            .cost = cost,
                            .cpu = softcap_cpu,
                            .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *y = graph_tensor(g, node_in(g, n, 0)), *dy = graph_tensor(g, node_in(g, n, 1));
    if (!shape_equal(&y->shape, &dy->shape) || y->dtype != dy->dtype)
        return status_set(STATUS_INVALID, "y and dy must have one shape and type");
    return infer(g, n, out);
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 4); }

static const op_input backward_inputs[] = { { "y", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 1, .must = false },
                                             { .out = 0, .in = 0, .must = false } };

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
                                     .inputs = backward_inputs,
                                     .in_count = 2,
                                     .aliases = backward_aliases,
                                     .alias_count = 2,
                                     .out_count = 1,
                                     .attribute_bytes = sizeof(softcap_attributes),
                                     .traits = OP_ELEMENTWISE,
                                     .infer = infer_backward,
                                     .cost = cost_backward,
                                     .cpu = softcap_backward_cpu,
                                     .cases = backward_cases };
