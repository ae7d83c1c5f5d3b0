#include "ops/row_gate/row_gate.h"

#include "ops/add/add.h"

tensor_id row_gate_apply(graph *g, tensor_id x, tensor_id gate) {
    return graph_add(g, &op_row_gate, (tensor_id[]){ x, gate }, 2, NULL);
}

static status check_gate(const graph *g, const node *n) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape gate = x->shape;
    gate.dim[gate.rank - 1] = 1;
    return op_check_input(g, n, 1, &gate, x->dtype);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check_gate(g, n));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), node_in(g, n, 1), dout[0] };
    tensor_id d = graph_add(g, &op_row_gate_backward, in, 3, NULL);
    for (uint32_t i = 0; i < 2 && d; i++)
        if (want[i]) din[i] = add_gather(g, din[i], d + i);
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "gate", DTYPE_MASK_FLOAT, 2, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

#define PAIR                                                                                                 \
    { DTYPE_F32, { { 3, 5, 7 }, 3 }, -2, 2 }, { DTYPE_F32, { { 3, 5, 1 }, 3 }, -4, 4 }
static const op_case cases[] = { { "usual", { PAIR }, NULL, 0, false }, { 0 } };

const op_def op_row_gate = { .name = "row_gate",
                             .paper = "arXiv:2407.10671",
                             .inputs = inputs,
                             .in_count = 2,
                             .aliases = aliases,
                             .alias_count = 1,
                             .out_count = 1,
                             .infer = infer,
                             .grad = grad,
                             .cost = cost,
                             .cpu = row_gate_cpu,
                             .cuda = OP_CUDA(row_gate_cuda),
                             .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *gate = graph_tensor(g, node_in(g, n, 1));
    TRY(check_gate(g, n));
    TRY(op_check_input(g, n, 2, &x->shape, x->dtype));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[1] = (tensor){ .shape = gate->shape, .dtype = gate->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_elementwise(g, n, 3); }

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false },
                                            { "gate", DTYPE_MASK_FLOAT, 2, 4, false },
                                            { "dy", DTYPE_MASK_FLOAT, 2, 4, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false },
                                             { .out = 0, .in = 2, .must = false } };

static const op_case backward_cases[] = {
    { "usual", { PAIR, { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 } }, NULL, 0, true },
    { "wide",
      { { DTYPE_F32, { { 3, 100 }, 2 }, -2, 2 },
        { DTYPE_F32, { { 3, 1 }, 2 }, -4, 4 },
        { DTYPE_F32, { { 3, 100 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_row_gate_backward = { .name = "row_gate_backward",
                                      .paper = "arXiv:2407.10671",
                                      .inputs = backward_inputs,
                                      .in_count = 3,
                                      .aliases = backward_aliases,
                                      .alias_count = 2,
                                      .out_count = 2,
                                      .infer = infer_backward,
                                      .cost = cost_backward,
                                      .cpu = row_gate_backward_cpu,
                                      .cuda = OP_CUDA(row_gate_backward_cuda),
                                      .cases = backward_cases };
