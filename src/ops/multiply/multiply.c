#include "ops/multiply/multiply.h"

#include "ops/add/add.h"

tensor_id multiply_apply(graph *g, tensor_id a, tensor_id b) {
    return graph_add(g, &op_multiply, (tensor_id[]){ a, b }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *a = graph_tensor(g, node_in(g, n, 0)), *b = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!shape_equal(&a->shape, &b->shape) || a->dtype != b->dtype)
        return status_set(STATUS_INVALID, "%s %s and %s %s cannot be multiplied", dtype_name(a->dtype),
                          shape_text(&a->shape, left), dtype_name(b->dtype), shape_text(&b->shape, right));
    out[0] = (tensor){ .shape = a->shape, .dtype = a->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id a = node_in(g, n, 0), b = node_in(g, n, 1);
    if (want[0]) din[0] = add_gather(g, din[0], multiply_apply(g, dout[0], b));
    if (want[1]) din[1] = add_gather(g, din[1], multiply_apply(g, dout[0], a));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "a", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "b", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false },
                                    { .out = 0, .in = 1, .must = false } };

#define PAIR(...)                                                                                            \
    { DTYPE_F32, { __VA_ARGS__ }, -1, 1 }, { DTYPE_F32, { __VA_ARGS__ }, -1, 1 }
static const op_case cases[] = { { "matrix", { PAIR({ 7, 33 }, 2) }, NULL, 0, false },
                                 { "one element", { PAIR({ 1 }, 1) }, NULL, 0, false },
                                 { "several pieces", { PAIR({ 3, 9011 }, 2) }, NULL, 0, false },
                                 { 0 } };

const op_def op_multiply = { .name = "multiply",
                             .inputs = inputs,
                             .in_count = 2,
                             .aliases = aliases,
                             .alias_count = 2,
                             .out_count = 1,
                             .traits = OP_ELEMENTWISE | OP_HALF,
                             .infer = infer,
                             .grad = grad,
                             .cost = cost,
                             .cpu = multiply_cpu,
                             .cuda = OP_CUDA(multiply_cuda),
                             .cases = cases };
