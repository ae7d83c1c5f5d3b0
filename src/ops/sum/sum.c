#include "ops/sum/sum.h"

#include "ops/add/add.h"

tensor_id sum_apply(graph *g, tensor_id x, tensor_id accumulator) {
    return graph_add(g, &op_sum, (tensor_id[]){ x, accumulator }, 2, NULL);
}

tensor_id sum_backward_apply(graph *g, tensor_id dy, shape to) {
    return graph_add(g, &op_sum_backward, &dy, 1, &(sum_backward_attributes){ .shape = to });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    tensor_id accumulator = node_in(g, n, 1);
    if (accumulator &&
        (shape_elements(graph_shape(g, accumulator)) != 1 || graph_tensor(g, accumulator)->dtype != x->dtype))
        return status_set(STATUS_INVALID, "the accumulator must be one element of type %s",
                          dtype_name(x->dtype));
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (want[0])
        din[0] = add_gather(g, din[0], sum_backward_apply(g, dout[0], *graph_shape(g, node_in(g, n, 0))));
    if (want[1]) din[1] = add_gather(g, din[1], dout[0]);
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "accumulator", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 1, .must = true } };

static const op_case cases[] = {
    { "batch", { { DTYPE_F32, { { 3, 5, 67 }, 3 }, -2, 3 } }, NULL, 1e-6, false },
    { "many rows, added",
      { { DTYPE_F32, { { 777, 33 }, 2 }, -1, 1 }, { DTYPE_F32, { { 1 }, 1 }, -5, 5 } },
      NULL,
      1e-6,
      false },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -2, 3 } }, NULL, 1e-6, false },
    { 0 }
};

const op_def op_sum = { .name = "sum",
                        .inputs = inputs,
                        .in_count = 2,
                        .aliases = aliases,
                        .alias_count = 1,
                        .out_count = 1,
                        .infer = infer,
                        .grad = grad,
                        .cost = cost,
                        .cpu = sum_cpu,
                        .cuda = OP_CUDA(sum_cuda),
                        .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const sum_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    if (shape_elements(&dy->shape) != 1) return status_set(STATUS_INVALID, "dy must be one element");
    out[0] = (tensor){ .shape = a->shape, .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_elementwise(g, n, 0); }

static const op_input backward_inputs[] = { { "dy", DTYPE_MASK_FLOAT, 1, 1, false } };

static const op_case backward_cases[] = { { "usual",
                                            { { DTYPE_F32, { { 1 }, 1 }, -2, 3 } },
                                            &(sum_backward_attributes){ { { 3, 100, 101 }, 3 } },
                                            0,
                                            true },
                                          { 0 } };

const op_def op_sum_backward = { .name = "sum_backward",
                                 .inputs = backward_inputs,
                                 .in_count = 1,
                                 .out_count = 1,
                                 .attribute_bytes = sizeof(sum_backward_attributes),
                                 .infer = infer_backward,
                                 .cost = cost_backward,
                                 .cpu = sum_backward_cpu,
                                 .cuda = OP_CUDA(sum_backward_cuda),
                                 .cases = backward_cases };
