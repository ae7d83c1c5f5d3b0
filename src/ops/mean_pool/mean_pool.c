#include "ops/mean_pool/mean_pool.h"

#include "ops/add/add.h"

tensor_id mean_pool_apply(graph *g, tensor_id x, const mean_pool_attributes *a) {
    return graph_add(g, &op_mean_pool, &x, 1, a);
}

/* The shape of y, or why there is none. */
static status result_of(const mean_pool_attributes *a, const shape *x, shape *y) {
    int64_t height = x->dim[1] + 2 * (int64_t)a->padding - a->size,
            width = x->dim[2] + 2 * (int64_t)a->padding - a->size;
    if (a->size < 1 || a->stride < 1 || a->padding < 0 || 2 * (int64_t)a->padding > a->size || height < 0 ||
        width < 0)
        return status_set(STATUS_INVALID, "windows of %d in steps of %d are not in an image of %lld x %lld",
                          a->size, a->stride, (long long)x->dim[1], (long long)x->dim[2]);
    *y = SHAPE(x->dim[0], height / a->stride + 1, width / a->stride + 1, x->dim[3]);
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .dtype = x->dtype };
    return result_of(node_attributes(g, n), &x->shape, &out[0].shape);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const shape *x = graph_shape(g, node_in(g, n, 0));
    const mean_pool_attributes *a = node_attributes(g, n);
    mean_pool_backward_attributes back = { *a, (int32_t)x->dim[1], (int32_t)x->dim[2] };
    if (want[0]) din[0] = add_gather(g, din[0], graph_add(g, &op_mean_pool_backward, dout, 1, &back));
}

static op_cost cost(const graph *g, const node *n) {
    const mean_pool_attributes *a = node_attributes(g, n);
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = (double)a->size * (double)a->size * (double)shape_elements(graph_shape(g, node_out(g, n, 0)));
    return c;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 4, 4, false } };
static const mean_pool_attributes usual = { 3, 2, 1 }, plain = { 2, 2, 0 }, gaps = { 2, 3, 0 };

static const op_case cases[] = {
    { "padded", { { DTYPE_F32, { { 2, 7, 8, 3 }, 4 }, -1, 1 } }, &usual, 0, false },
    { "plain", { { DTYPE_F32, { { 1, 4, 5, 2 }, 4 }, -1, 1 } }, &plain, 0, false },
    { "with gaps", { { DTYPE_F32, { { 2, 9, 7, 33 }, 4 }, -1, 1 } }, &gaps, 0, false },
    { 0 }
};

const op_def op_mean_pool = { .name = "mean_pool",
                              .inputs = inputs,
                              .in_count = 1,
                              .out_count = 1,
                              .attribute_bytes = sizeof(mean_pool_attributes),
                              .infer = infer,
                              .grad = grad,
                              .cost = cost,
                              .cpu = mean_pool_cpu,
                              .cuda = OP_CUDA(mean_pool_cuda),
                              .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const mean_pool_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    shape x = SHAPE(dy->shape.dim[0], a->height, a->width, dy->shape.dim[3]), y;
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    TRY(result_of(&a->of, &x, &y));
    if (!shape_equal(&dy->shape, &y))
        return status_set(STATUS_INVALID, "dy is %s, not %s", shape_text(&dy->shape, is),
                          shape_text(&y, should));
    out[0] = (tensor){ .shape = x, .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    const mean_pool_backward_attributes *a = node_attributes(g, n);
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops =
        (double)a->of.size * (double)a->of.size * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return c;
}

static const op_input backward_inputs[] = { { "dy", DTYPE_MASK_FLOAT, 4, 4, false } };
static const mean_pool_backward_attributes image = { { 3, 2, 1 }, 7, 8 }, other = { { 2, 3, 0 }, 9, 7 };

static const op_case backward_cases[] = {
    { "padded", { { DTYPE_F32, { { 2, 4, 4, 3 }, 4 }, -1, 1 } }, &image, 0, true },
    { "with gaps", { { DTYPE_F32, { { 2, 3, 2, 33 }, 4 }, -1, 1 } }, &other, 0, true },
    { 0 }
};

const op_def op_mean_pool_backward = { .name = "mean_pool_backward",
                                       .inputs = backward_inputs,
                                       .in_count = 1,
                                       .out_count = 1,
                                       .attribute_bytes = sizeof(mean_pool_backward_attributes),
                                       .infer = infer_backward,
                                       .cost = cost_backward,
                                       .cpu = mean_pool_backward_cpu,
                                       .cuda = OP_CUDA(mean_pool_backward_cuda),
                                       .cases = backward_cases };
