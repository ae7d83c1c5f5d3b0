#include "ops/increment/increment.h"

#include "ops/reference.h"

tensor_id increment_apply(graph *g, tensor_id t, tensor_id ok) {
    return graph_add(g, &op_increment, (tensor_id[]){ t, ok }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    for (uint32_t i = 0; i < 2; i++)
        if (node_in(g, n, i) && shape_elements(graph_shape(g, node_in(g, n, i))) != 1)
            return status_set(STATUS_INVALID, "'%s' must be one element", n->op->inputs[i].name);
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = DTYPE_I32 };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static void increment_reference(const op_call *c) {
    const op_arg *t = op_in(c, 0), *ok = op_in(c, 1);
    bool counts = !ok->data || reference_get(ok, 0) != 0;
    reference_set(&c->out[0], 0, reference_get(t, 0) + (counts ? 1 : 0));
}

const op_kernel increment_cpu[] = { { "increment_reference", NULL, NULL, increment_reference }, { 0 } };

static const op_input inputs[] = { { "t", DTYPE_MASK_INT, 1, 1, false },
                                   { "ok", DTYPE_MASK_INT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

static const op_case cases[] = {
    { "always", { { DTYPE_I32, { { 1 }, 1 }, 0, 1000000 } }, NULL, 0, true },
    { "ok", { { DTYPE_I32, { { 1 }, 1 }, 5, 6 }, { DTYPE_I32, { { 1 }, 1 }, 1, 2 } }, NULL, 0, true },
    { "not ok", { { DTYPE_I32, { { 1 }, 1 }, 5, 6 }, { DTYPE_I32, { { 1 }, 1 }, 0, 1 } }, NULL, 0, true },
    { 0 }
};

const op_def op_increment = { .name = "increment",
                              .inputs = inputs,
                              .in_count = 2,
                              .aliases = aliases,
                              .alias_count = 1,
                              .out_count = 1,
                              .infer = infer,
                              .cost = cost,
                              .cpu = increment_cpu,
                              .cuda = OP_CUDA(increment_cuda),
                              .cases = cases };
