#include "ops/conv2d/conv2d.h"

#include "ops/add/add.h"
#include "ops/conv2d/conv2d_packed.h"
#include "ops/sum_rows/sum_rows.h"

tensor_id conv2d_apply(graph *g, tensor_id x, tensor_id w, tensor_id bias, const conv2d_attributes *a) {
    return graph_add(g, &op_conv2d, (tensor_id[]){ x, w, bias }, 3, a);
}

/* The shape of y; false where there is none. */
static bool result_of(const shape *x, const shape *w, const conv2d_attributes *a, shape *y) {
    if (a->stride < 1 || a->padding < 0 || a->groups < 1 || w->dim[0] % a->groups ||
        x->dim[3] != w->dim[1] * a->groups)
        return false;
    int64_t height = x->dim[1] + 2 * a->padding - w->dim[2], width = x->dim[2] + 2 * a->padding - w->dim[3];
    *y = SHAPE(x->dim[0], height / a->stride + 1, width / a->stride + 1, w->dim[0]);
    return height >= 0 && width >= 0;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const conv2d_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *w = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    shape bias = SHAPE(w->shape.dim[0]);
    out[0] = (tensor){ .dtype = x->dtype };
    if (!result_of(&x->shape, &w->shape, a, &out[0].shape) || w->dtype != x->dtype)
        return status_set(STATUS_INVALID, "images %s cannot be convolved with %s in steps of %d, %d groups",
                          shape_text(&x->shape, left), shape_text(&w->shape, right), a->stride, a->groups);
    tensor_id b = node_in(g, n, 2);
    bool wide = b && graph_tensor(g, b)->dtype == dtype_wide((dtype)x->dtype);
    return op_check_input(g, n, 2, &bias, wide ? (uint8_t)dtype_wide((dtype)x->dtype) : x->dtype);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    node n = *graph_node(g, id);
    tensor_id x = node_in(g, &n, 0), w = node_in(g, &n, 1);
    const shape xs = *graph_shape(g, x), ws = *graph_shape(g, w);
    conv2d_backward_attributes back = { .of = *(const conv2d_attributes *)node_attributes(g, &n) };
    back.height = (int32_t)ws.dim[2], back.width = (int32_t)ws.dim[3];
    if (want[1]) {
        back.type = (int32_t)graph_gradient_dtype(g, w);
        din[1] = graph_add(g, &op_conv2d_weights, (tensor_id[]){ x, dout[0], din[1] }, 3, &back);
    }
    if (want[2]) din[2] = sum_rows_apply(g, dout[0], din[2]);
    back.height = (int32_t)xs.dim[1], back.width = (int32_t)xs.dim[2], back.type = 0;
    if (want[0])
        din[0] = add_gather(g, din[0], graph_add(g, &op_conv2d_data, (tensor_id[]){ dout[0], w }, 2, &back));
}

/* Each number of y is a sum over the kernel; of a depthwise one there is little to a number, so it is no
 * product of matrices: each multiplication reads its factors, and was measured to take as long as four of
 * those that have them in registers. */
enum { DEPTHWISE_READS = 4 };

static op_cost products(const graph *g, const node *n, const shape *y, const shape *w, double moved) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = 2 * (double)shape_elements(y) * (double)(w->dim[1] * w->dim[2] * w->dim[3]);
    c.kind = w->dim[1] > 1 ? op_products_kind(g, n) : WORK_ARITHMETIC;
    if (w->dim[1] > 1)
        c.bytes_moved = moved;
    else
        c.work = DEPTHWISE_READS * c.flops;
    return c;
}

static op_cost cost(const graph *g, const node *n) {
    const shape *y = graph_shape(g, node_out(g, n, 0)), *w = graph_shape(g, node_in(g, n, 1));
    return products(g, n, y, w, conv2d_moved(node_attributes(g, n), y, w));
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 4, 4, false },
                                   { "w", DTYPE_MASK_FLOAT, 4, 4, false },
                                   { "bias", DTYPE_MASK_FLOAT, 1, 1, true } };

static const conv2d_attributes many_apart = { 1, 1, 37 }, strided_apart = { 2, 2, 40 };
static const conv2d_attributes plain = { 1, 1, 1 }, strided = { 2, 3, 1 }, depthwise = { 1, 1, 4 },
                               grouped = { 2, 0, 2 }, patches = { 4, 0, 1 };

#define IMAGES(...)                                                                                          \
    { DTYPE_F32, { { __VA_ARGS__ }, 4 }, -1, 1 }
#define BIAS(n)                                                                                              \
    { DTYPE_F32, { { n }, 1 }, -1, 1 }
static const op_case cases[] = {
    { "plain", { IMAGES(2, 5, 6, 3), IMAGES(4, 3, 3, 3), BIAS(4) }, &plain, 0, false },
    { "strided, padded", { IMAGES(2, 9, 8, 3), IMAGES(2, 3, 7, 7) }, &strided, 0, false },
    { "depthwise", { IMAGES(1, 5, 5, 4), IMAGES(4, 1, 3, 3), BIAS(4) }, &depthwise, 0, false },
    { "two groups", { IMAGES(1, 6, 5, 4), IMAGES(6, 2, 2, 3) }, &grouped, 0, false },
    { "wide groups", { IMAGES(1, 6, 5, 80), IMAGES(80, 40, 2, 3), BIAS(80) }, &grouped, 0, false },
    { "many places", { IMAGES(2, 17, 16, 3), IMAGES(70, 3, 3, 3) }, &plain, 0, true },
    { "patches", { IMAGES(2, 9, 10, 3), IMAGES(5, 3, 4, 4), BIAS(5) }, &patches, 0, false },
    { "deep", { IMAGES(2, 7, 6, 40), IMAGES(33, 40, 3, 3), BIAS(33) }, &plain, 0, true },
    { "depthwise, many channels",
      { IMAGES(2, 9, 11, 37), IMAGES(37, 1, 3, 3), BIAS(37) },
      &many_apart,
      0,
      true },
    { "depthwise, strided", { IMAGES(1, 13, 12, 40), IMAGES(40, 1, 5, 5) }, &strided_apart, 0, true },
    { "one pixel", { IMAGES(1, 1, 1, 1), IMAGES(1, 1, 1, 1) }, &(conv2d_attributes){ 1, 0, 1 }, 0, false },
    { 0 }
};

const op_def op_conv2d = { .name = "conv2d",
                           .paper = "LeCun et al. 1998",
                           .inputs = inputs,
                           .in_count = 3,
                           .out_count = 1,
                           .attribute_bytes = sizeof(conv2d_attributes),
                           .traits = OP_PRODUCT,
                           .pairs = true,
                           .infer = infer,
                           .grad = grad,
                           .cost = cost,
                           .cpu = conv2d_cpu,
                           .cuda = OP_CUDA(conv2d_cuda),
                           .cases = cases };

/* ---- gradients ---- */

static status check_backward(const graph *g, const node *n, uint32_t dy, const shape *x, const shape *w) {
    const conv2d_backward_attributes *a = node_attributes(g, n);
    shape y;
    if (!result_of(x, w, &a->of, &y))
        return status_set(STATUS_INVALID, "no convolution has these inputs and a kernel or image of %d x %d",
                          a->height, a->width);
    return op_check_input(g, n, dy, &y, graph_tensor(g, node_in(g, n, 0))->dtype);
}

static status infer_data(const graph *g, const node *n, tensor *out) {
    const conv2d_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    const shape *w = graph_shape(g, node_in(g, n, 1));
    shape x = SHAPE(dy->shape.dim[0], a->height, a->width, w->dim[1] * a->of.groups);
    TRY(check_backward(g, n, 0, &x, w));
    out[0] = (tensor){ .shape = x, .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_data(const graph *g, const node *n) {
    const conv2d_backward_attributes *a = node_attributes(g, n);
    const shape *dy = graph_shape(g, node_in(g, n, 0)), *w = graph_shape(g, node_in(g, n, 1));
    return products(g, n, dy, w, conv2d_data_moved(&a->of, graph_shape(g, node_out(g, n, 0)), w));
}

static status infer_weights(const graph *g, const node *n, tensor *out) {
    const conv2d_backward_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    const shape *dy = graph_shape(g, node_in(g, n, 1));
    if (a->of.groups < 1 || x->shape.dim[3] % a->of.groups)
        return status_set(STATUS_INVALID, "%lld channels are not %d groups", (long long)x->shape.dim[3],
                          a->of.groups);
    shape w = SHAPE(dy->dim[3], x->shape.dim[3] / a->of.groups, a->height, a->width);
    uint8_t type = a->type ? (uint8_t)a->type : x->dtype;
    if (dtype_wide((dtype)type) != dtype_wide((dtype)x->dtype))
        return status_set(STATUS_INVALID, "sums of %s cannot be %s", dtype_name((dtype)x->dtype),
                          dtype_name((dtype)type));
    TRY(check_backward(g, n, 1, &x->shape, &w));
    TRY(op_check_input(g, n, 2, &w, type));
    out[0] = (tensor){ .shape = w, .dtype = type };
    return STATUS_OK;
}

static op_cost cost_weights(const graph *g, const node *n) {
    const conv2d_backward_attributes *a = node_attributes(g, n);
    const shape *dy = graph_shape(g, node_in(g, n, 1)), *w = graph_shape(g, node_out(g, n, 0));
    return products(g, n, dy, w, conv2d_weights_moved(&a->of, dy, w));
}

static const op_input data_inputs[] = { { "dy", DTYPE_MASK_FLOAT, 4, 4, false },
                                        { "w", DTYPE_MASK_FLOAT, 4, 4, false } };
static const op_input weights_inputs[] = { { "x", DTYPE_MASK_FLOAT, 4, 4, false },
                                           { "dy", DTYPE_MASK_FLOAT, 4, 4, false },
                                           { "accumulator", DTYPE_MASK_FLOAT, 4, 4, true } };
static const op_alias weights_aliases[] = { { .out = 0, .in = 2, .must = true } };

static const conv2d_backward_attributes data_of = { { 2, 3, 1 }, 9, 8, 0 },
                                        weights_of = { { 2, 3, 1 }, 7, 7, 0 },
                                        depthwise_of = { { 1, 1, 4 }, 5, 5, 0 },
                                        depthwise_weights = { { 1, 1, 4 }, 3, 3, 0 },
                                        grouped_of = { { 2, 0, 2 }, 6, 5, 0 },
                                        grouped_weights = { { 2, 0, 2 }, 2, 3, 0 },
                                        same_weights = { { 1, 1, 1 }, 3, 3, 0 },
                                        deep_of = { { 2, 1, 1 }, 8, 7, 0 }, one_of = { { 2, 0, 1 }, 8, 7, 0 },
                                        apart_of = { { 1, 3, 37 }, 9, 11, 0 },
                                        apart_weights = { { 1, 3, 37 }, 7, 7, 0 },
                                        strided_apart_of = { { 2, 2, 40 }, 13, 12, 0 },
                                        strided_apart_weights = { { 2, 2, 40 }, 5, 5, 0 },
                                        summed_wide = { { 1, 1, 1 }, 3, 3, DTYPE_F32 };

static const op_case data_cases[] = {
    { "strided, padded", { IMAGES(2, 5, 4, 2), IMAGES(2, 3, 7, 7) }, &data_of, 0, true },
    { "depthwise", { IMAGES(1, 5, 5, 4), IMAGES(4, 1, 3, 3) }, &depthwise_of, 0, true },
    { "two groups", { IMAGES(1, 3, 2, 80), IMAGES(80, 40, 2, 3) }, &grouped_of, 0, true },
    { "strided, deep", { IMAGES(2, 4, 4, 90), IMAGES(90, 5, 3, 3) }, &deep_of, 0, true },
    { "strided, one tap", { IMAGES(2, 4, 4, 9), IMAGES(9, 5, 1, 1) }, &one_of, 0, true },
    { "depthwise, many channels", { IMAGES(2, 9, 11, 37), IMAGES(37, 1, 7, 7) }, &apart_of, 0, true },
    { "depthwise, strided", { IMAGES(1, 7, 6, 40), IMAGES(40, 1, 5, 5) }, &strided_apart_of, 0, true },
    { 0 }
};
static const op_case weights_cases[] = {
    { "strided, padded", { IMAGES(2, 9, 8, 3), IMAGES(2, 5, 4, 2) }, &weights_of, 0, true },
    { "accumulator", { IMAGES(2, 9, 8, 3), IMAGES(2, 5, 4, 2), IMAGES(2, 3, 7, 7) }, &weights_of, 0, true },
    { "depthwise",
      { IMAGES(1, 5, 5, 4), IMAGES(1, 5, 5, 4), IMAGES(4, 1, 3, 3) },
      &depthwise_weights,
      0,
      true },
    { "two groups", { IMAGES(1, 6, 5, 80), IMAGES(1, 3, 2, 80) }, &grouped_weights, 0, true },
    { "many places", { IMAGES(2, 21, 23, 2), IMAGES(2, 21, 23, 3) }, &same_weights, 0, true },
    { "of bf16 to f32",
      { { DTYPE_BF16, { { 2, 9, 11, 5 }, 4 }, -1, 1 },
        { DTYPE_BF16, { { 2, 9, 11, 7 }, 4 }, -1, 1 },
        IMAGES(7, 5, 3, 3) },
      &summed_wide,
      0.01,
      true },
    { "depthwise, many channels",
      { IMAGES(4, 9, 11, 37), IMAGES(4, 9, 11, 37), IMAGES(37, 1, 7, 7) },
      &apart_weights,
      0,
      true },
    { "depthwise, strided", { IMAGES(1, 13, 12, 40), IMAGES(1, 7, 6, 40) }, &strided_apart_weights, 0, true },
    { 0 }
};

const op_def op_conv2d_data = { .name = "conv2d_data",
                                .paper = "LeCun et al. 1998",
                                .inputs = data_inputs,
                                .in_count = 2,
                                .out_count = 1,
                                .attribute_bytes = sizeof(conv2d_backward_attributes),
                                .pairs = true,
                                .infer = infer_data,
                                .cost = cost_data,
                                .cpu = conv2d_data_cpu,
                                .cuda = OP_CUDA(conv2d_data_cuda),
                                .cases = data_cases };

const op_def op_conv2d_weights = { .name = "conv2d_weights",
                                   .paper = "LeCun et al. 1998",
                                   .inputs = weights_inputs,
                                   .in_count = 3,
                                   .aliases = weights_aliases,
                                   .alias_count = 1,
                                   .out_count = 1,
                                   .attribute_bytes = sizeof(conv2d_backward_attributes),
                                   .pairs = true,
                                   .infer = infer_weights,
                                   .cost = cost_weights,
                                   .cpu = conv2d_weights_cpu,
                                   .cuda = OP_CUDA(conv2d_weights_cuda),
                                   .cases = weights_cases };
