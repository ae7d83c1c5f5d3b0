#include "ops/mean_space/mean_space.h"

#include "ops/add/add.h"

tensor_id mean_space_apply(graph *g, tensor_id x) { return graph_add(g, &op_mean_space, &x, 1, NULL); }

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = SHAPE(x->shape.dim[0], x->shape.dim[3]), .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const shape *x = graph_shape(g, node_in(g, graph_node(g, id), 0));
    mean_space_backward_attributes back = { (int32_t)x->dim[1], (int32_t)x->dim[2] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_mean_space_backward, dout, 1, &back));
}

static op_cost cost(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return c;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 4, 4, false } };
static const op_case cases[] = {
    { "usual", { { DTYPE_F32, { { 2, 3, 5, 7 }, 4 }, -1, 1 } }, NULL, 0, false },
    { "many channels", { { DTYPE_F32, { { 2, 3, 5, 70 }, 4 }, -1, 1 } }, NULL, 0, true },
    { 0 }
};

const op_def op_mean_space = { .name = "mean_space",
                               .inputs = inputs,
                               .in_count = 1,
                               .out_count = 1,
                               .traits = OP_HALF,
                               .infer = infer,
                               .grad = grad,
                               .cost = cost,
                               .cpu = mean_space_cpu,
                               .cuda = OP_CUDA(mean_space_cuda),
                               .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const mean_space_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = SHAPE(dy->shape.dim[0], a->height, a->width, dy->shape.dim[1]),
                       .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input backward_inputs[] = { { "dy", DTYPE_MASK_FLOAT, 2, 2, false } };
static const mean_space_backward_attributes image = { 3, 5 };
static const op_case backward_cases[] = {
    { "usual", { { DTYPE_F32, { { 2, 7 }, 2 }, -1, 1 } }, &image, 0, true },
    { "many channels", { { DTYPE_F32, { { 2, 70 }, 2 }, -1, 1 } }, &image, 0, true },
    { 0 }
};

const op_def op_mean_space_backward = { .name = "mean_space_backward",
                                        .inputs = backward_inputs,
                                        .in_count = 1,
                                        .out_count = 1,
                                        .attribute_bytes = sizeof(mean_space_backward_attributes),
                                        .infer = infer_backward,
                                        .cost = cost_backward,
                                        .cpu = mean_space_backward_cpu,
                                        .cuda = OP_CUDA(mean_space_backward_cuda),
                                        .cases = backward_cases };
