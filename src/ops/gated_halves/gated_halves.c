#include "ops/gated_halves/gated_halves.h"

#include "ops/add/add.h"

tensor_id gated_halves_apply(graph *g, tensor_id x, gated_function f) {
    return graph_add(g, &op_gated_halves, &x, 1, &(gated_attributes){ .function = (int32_t)f });
}

static status halve(const tensor *x, shape *y) {
    *y = x->shape;
    if (shape_last(y) % 2)
        return status_set(STATUS_INVALID, "%lld columns have no halves", (long long)shape_last(y));
    y->dim[y->rank - 1] /= 2;
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .dtype = x->dtype };
    return halve(x, &out[0].shape);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), dout[0] };
    if (want[0])
        din[0] = add_gather(g, din[0], graph_add(g, &op_gated_halves_backward, in, 2, node_attributes(g, n)));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_functions(g, n, 21); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };

static const gated_attributes silu = { GATED_SILU }, gelu_tanh = { GATED_GELU_TANH },
                              gelu_erf = { GATED_GELU_ERF };

static const op_case cases[] = {
    { "silu", { { DTYPE_F32, { { 3, 5, 14 }, 3 }, -9, 9 } }, &silu, 0, false },
    { "gelu", { { DTYPE_F32, { { 9, 6 }, 2 }, -4, 4 } }, &gelu_erf, 0, false },
    { "gelu, by tanh", { { DTYPE_F32, { { 2 }, 1 }, -4, 4 } }, &gelu_tanh, 0, false },
    { 0 }
};

const op_def op_gated_halves = { .name = "gated_halves",
                                 .paper = "arXiv:2002.05202",
                                 .inputs = inputs,
                                 .in_count = 1,
                                 .out_count = 1,
                                 .traits = OP_HALF,
                                 .attribute_bytes = sizeof(gated_attributes),
                                 .infer = infer,
                                 .grad = grad,
                                 .cost = cost,
                                 .cpu = gated_halves_cpu,
                                 .cuda = OP_CUDA(gated_halves_cuda),
                                 .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape dy;
    TRY(halve(x, &dy));
    TRY(op_check_input(g, n, 1, &dy, x->dtype));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 15); }

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case backward_cases[] = { { "silu",
                                            { { DTYPE_F32, { { 9, 6 }, 2 }, -9, 9 },
                                              { DTYPE_F32, { { 9, 3 }, 2 }, -1, 1 } },
                                            &silu,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_gated_halves_backward = { .name = "gated_halves_backward",
                                          .paper = "arXiv:2002.05202",
                                          .inputs = backward_inputs,
                                          .in_count = 2,
                                          .aliases = backward_aliases,
                                          .alias_count = 1,
                                          .out_count = 1,
                                          .attribute_bytes = sizeof(gated_attributes),
                                          .infer = infer_backward,
                                          .cost = cost_backward,
                                          .cpu = gated_halves_backward_cpu,
                                          .cuda = OP_CUDA(gated_halves_backward_cuda),
                                          .cases = backward_cases };
