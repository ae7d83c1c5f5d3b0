#include "ops/max_pool/max_pool.h"

#include "ops/add/add.h"

tensor_id max_pool_apply(graph *g, tensor_id x, const max_pool_attributes *a) {
    return graph_add(g, &op_max_pool, &x, 1, a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const max_pool_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    int64_t height = x->shape.dim[1] + 2 * a->padding - a->size,
            width = x->shape.dim[2] + 2 * a->padding - a->size;
    if (a->size < 1 || a->stride < 1 || a->padding < 0 || 2 * a->padding > a->size || height < 0 || width < 0)
        return status_set(STATUS_INVALID, "windows of %d in steps of %d are not in an image of %lld x %lld",
                          a->size, a->stride, (long long)x->shape.dim[1], (long long)x->shape.dim[2]);
    out[0] = (tensor){ .shape = SHAPE(x->shape.dim[0], height / a->stride + 1, width / a->stride + 1,
                                      x->shape.dim[3]),
                       .dtype = x->dtype };
    out[1] = (tensor){ .shape = out[0].shape, .dtype = DTYPE_I32 };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const shape *x = graph_shape(g, node_in(g, n, 0));
    max_pool_backward_attributes back = { (int32_t)x->dim[1], (int32_t)x->dim[2] };
    tensor_id in[] = { node_out(g, n, 1), dout[0] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_max_pool_backward, in, 2, &back));
}

static op_cost cost(const graph *g, const node *n) {
    const max_pool_attributes *a = node_attributes(g, n);
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = (double)(a->size * a->size) * (double)shape_elements(graph_shape(g, node_out(g, n, 0)));
    return c;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 4, 4, false } };
static const max_pool_attributes usual = { 3, 2, 1 }, plain = { 2, 2, 0 };

static const op_case cases[] = {
    { "padded", { { DTYPE_F32, { { 2, 7, 8, 3 }, 4 }, -1, 1 } }, &usual, 0, false },
    { "plain", { { DTYPE_F32, { { 1, 4, 5, 2 }, 4 }, -1, 1 } }, &plain, 0, false },
    { "many channels", { { DTYPE_F32, { { 2, 5, 6, 70 }, 4 }, -1, 1 } }, &usual, 0, true },
    { 0 }
};

const op_def op_max_pool = { .name = "max_pool",
                             .inputs = inputs,
                             .in_count = 1,
                             .out_count = 2,
                             .traits = OP_HALF,
                             .attribute_bytes = sizeof(max_pool_attributes),
                             .infer = infer,
                             .grad = grad,
                             .cost = cost,
                             .cpu = max_pool_cpu,
                             .cuda = OP_CUDA(max_pool_cuda),
                             .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const max_pool_backward_attributes *a = node_attributes(g, n);
    const shape *places = graph_shape(g, node_in(g, n, 0));
    uint8_t type = graph_tensor(g, node_in(g, n, 1))->dtype;
    TRY(op_check_input(g, n, 1, places, type));
    out[0] = (tensor){ .shape = SHAPE(places->dim[0], a->height, a->width, places->dim[3]), .dtype = type };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input backward_inputs[] = { { "places", DTYPE_MASK_INT, 4, 4, false },
                                            { "dy", DTYPE_MASK_FLOAT, 4, 4, false } };
static const max_pool_backward_attributes image = { 7, 8 };

static const op_case backward_cases[] = {
    { "places outside",
      { { DTYPE_I32, { { 2, 3, 5, 3 }, 4 }, -9, 70 }, { DTYPE_F32, { { 2, 3, 5, 3 }, 4 }, -1, 1 } },
      &image,
      0,
      true },
    { "many channels",
      { { DTYPE_I32, { { 2, 3, 5, 70 }, 4 }, 0, 56 }, { DTYPE_F32, { { 2, 3, 5, 70 }, 4 }, -1, 1 } },
      &image,
      0,
      true },
    { 0 }
};

const op_def op_max_pool_backward = { .name = "max_pool_backward",
                                      .inputs = backward_inputs,
                                      .in_count = 2,
                                      .out_count = 1,
                                      .attribute_bytes = sizeof(max_pool_backward_attributes),
                                      .infer = infer_backward,
                                      .cost = cost_backward,
                                      .cpu = max_pool_backward_cpu,
                                      .cuda = OP_CUDA(max_pool_backward_cuda),
                                      .cases = backward_cases };
