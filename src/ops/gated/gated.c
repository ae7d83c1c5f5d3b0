#include "ops/gated/gated.h"

#include "ops/add/add.h"
#include "ops/half_table.h"

tensor_id gated_apply(graph *g, tensor_id gate, tensor_id up, gated_function f) {
    return graph_add(g, &op_gated, (tensor_id[]){ gate, up }, 2,
                     &(gated_attributes){ .function = (int32_t)f });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *gate = graph_tensor(g, node_in(g, n, 0));
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    for (uint32_t i = 1; i < n->in_count; i++) {
        const tensor *x = graph_tensor(g, node_in(g, n, i));
        if (!shape_equal(&x->shape, &gate->shape) || x->dtype != gate->dtype)
            return status_set(STATUS_INVALID, "'%s' is %s %s, the gate is %s %s", n->op->inputs[i].name,
                              dtype_name(x->dtype), shape_text(&x->shape, is), dtype_name(gate->dtype),
                              shape_text(&gate->shape, should));
    }
    for (uint32_t o = 0; o < n->out_count; o++)
        out[o] = (tensor){ .shape = gate->shape, .dtype = gate->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), node_in(g, n, 1), dout[0] };
    tensor_id d = graph_add(g, &op_gated_backward, in, 3, node_attributes(g, n));
    for (uint32_t i = 0; i < 2 && d; i++)
        if (want[i]) din[i] = add_gather(g, din[i], d + i);
}

static op_cost cost(const graph *g, const node *n) {
    return op_cost_functions(g, n, half_table_flops(g, n, 21));
}

static const op_input inputs[] = { { "gate", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "up", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false },
                                    { .out = 0, .in = 1, .must = false } };

static const gated_attributes silu = { GATED_SILU };
static const gated_attributes gelu_tanh = { GATED_GELU_TANH }, gelu_erf = { GATED_GELU_ERF };

#define PAIR(...)                                                                                            \
    { DTYPE_F32, { __VA_ARGS__ }, -20, 20 }, { DTYPE_F32, { __VA_ARGS__ }, -2, 2 }
static const op_case cases[] = { { "silu", { PAIR({ 3, 5, 7 }, 3) }, &silu, 2e-6, false },
                                 { "silu, several pieces", { PAIR({ 3, 9001 }, 2) }, &silu, 2e-6, false },
                                 { "gelu", { PAIR({ 3, 5, 7 }, 3) }, &gelu_erf, 2e-6, false },
                                 { "gelu, by tanh", { PAIR({ 3, 9001 }, 2) }, &gelu_tanh, 2e-6, false },
                                 { "one element", { PAIR({ 1 }, 1) }, &silu, 2e-6, false },
                                 { 0 } };

const op_def op_gated = { .name = "gated",
                          .paper = "arXiv:2002.05202",
                          .inputs = inputs,
                          .in_count = 2,
                          .aliases = aliases,
                          .alias_count = 2,
                          .out_count = 1,
                          .traits = OP_ELEMENTWISE | OP_HALF,
                          .attribute_bytes = sizeof(gated_attributes),
                          .infer = infer,
                          .grad = grad,
                          .cost = cost,
                          .cpu = gated_cpu,
                          .cuda = OP_CUDA(gated_cuda),
                          .cases = cases };

/* ---- the gradient ---- */

static op_cost cost_backward(const graph *g, const node *n) {
    return op_cost_functions(g, n, half_table_flops(g, n, 15));
}

static const op_input backward_inputs[] = { { "gate", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "up", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false },
                                             { .out = 0, .in = 2, .must = false },
                                             { .out = 1, .in = 1, .must = false },
                                             { .out = 1, .in = 2, .must = false } };

#define THREE(...)                                                                                           \
    PAIR(__VA_ARGS__), { DTYPE_F32, { __VA_ARGS__ }, -1, 1 }
static const op_case backward_cases[] = {
    { "silu", { THREE({ 3, 5, 7 }, 3) }, &silu, 2e-6, true },
    { "silu, several pieces", { THREE({ 3, 9001 }, 2) }, &silu, 2e-6, true },
    { "gelu", { THREE({ 3, 5, 7 }, 3) }, &gelu_erf, 2e-6, true },
    { "gelu, by tanh", { THREE({ 3, 9001 }, 2) }, &gelu_tanh, 2e-6, true },
    { 0 }
};

const op_def op_gated_backward = { .name = "gated_backward",
                                   .paper = "arXiv:2002.05202",
                                   .inputs = backward_inputs,
                                   .in_count = 3,
                                   .aliases = backward_aliases,
                                   .alias_count = 4,
                                   .out_count = 2,
                                   .traits = OP_ELEMENTWISE,
                                   .attribute_bytes = sizeof(gated_attributes),
                                   .infer = infer,
                                   .cost = cost_backward,
                                   .cpu = gated_backward_cpu,
                                   .cuda = OP_CUDA(gated_backward_cuda),
                                   .cases = backward_cases };
