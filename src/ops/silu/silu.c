#include "ops/silu/silu.h"

#include "ops/add/add.h"

tensor_id silu_apply(graph *g, tensor_id x) { return graph_add(g, &op_silu, &x, 1, NULL); }

tensor_id silu_backward_apply(graph *g, tensor_id x, tensor_id dy) {
    return graph_add(g, &op_silu_backward, (tensor_id[]){ x, dy }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (want[0]) din[0] = add_gather(g, din[0], silu_backward_apply(g, node_in(g, n, 0), dout[0]));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_functions(g, n, 20); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case cases[] = {
    { "usual", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, NULL, 2e-6, false },
    { "far", { { DTYPE_F32, { { 3, 9001 }, 2 }, -200, 200 } }, NULL, 2e-6, false },
    { "below", { { DTYPE_F32, { { 100 }, 1 }, -30, -10 } }, NULL, 2e-6, false },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -4, 4 } }, NULL, 2e-6, false },
    { 0 }
};

const op_def op_silu = { .name = "silu",
                         .paper = "arXiv:1606.08415, arXiv:1710.05941",
                         .inputs = inputs,
                         .in_count = 1,
                         .aliases = aliases,
                         .alias_count = 1,
                         .out_count = 1,
                         .traits = OP_ELEMENTWISE | OP_HALF,
                         .infer = infer,
                         .grad = grad,
                         .cost = cost,
                         .cpu = silu_cpu,
                         .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *dy = graph_tensor(g, node_in(g, n, 1));
    if (!shape_equal(&x->shape, &dy->shape) || x->dtype != dy->dtype)
        return status_set(STATUS_INVALID, "x and dy must have one shape and type");
    return infer(g, n, out);
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 24); }

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 1, .must = false },
                                             { .out = 0, .in = 0, .must = false } };

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
                                  .inputs = backward_inputs,
                                  .in_count = 2,
                                  .aliases = backward_aliases,
                                  .alias_count = 2,
                                  .out_count = 1,
                                  .traits = OP_ELEMENTWISE,
                                  .infer = infer_backward,
                                  .cost = cost_backward,
                                  .cpu = silu_backward_cpu,
                                  .cases = backward_cases };
