/* Rules for what models of images are built of: torch.nn's own modules. Images have their channels first
 * there unless a layer norm over them has turned them, which changes no size. */
#include "estimate/torch/torch_calls.h"
#include "ir/op.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/class_token/class_token.h"
#include "ops/column_scale/column_scale.h"
#include "ops/conv2d/conv2d.h"
#include "ops/join/join.h"
#include "ops/max_pool/max_pool.h"
#include "ops/mean_space/mean_space.h"
#include "ops/quick_gelu/quick_gelu.h"
#include "ops/relu/relu.h"

static int64_t elements_out(const torch_reading *r, const node *n) {
    return shape_elements(graph_shape(r->g, node_out(r->g, n, 0)));
}

/* What oneDNN, which convolves on CPUs, takes beside operands and results: copies of them in a layout of its
 * own, unless they are channels-last; and the gradient of a depthwise kernel padded to 16 x 16 channels a
 * group, in 16 bits with f32 sums beside it. 1 x 1 kernels of f32 are products without it. */
static uint64_t convolution_extra(const torch_reading *r, const node *n, tape_value x) {
    const conv2d_attributes *a = node_attributes(r->g, n);
    const shape *w = graph_shape(r->g, node_in(r->g, n, 1));
    double width = torch_width(r, x), from = (double)torch_elements(r, x), to = (double)elements_out(r, n);
    if (r->s->cuda || (w->dim[2] == 1 && w->dim[3] == 1 && a->stride == 1 && width == 4)) return 0;
    double padded = w->dim[1] == 1 ? 256 * (double)shape_elements(w) * (width == 4 ? 4 : 6) : 0;
    if (r->channels_last) return (uint64_t)padded;
    return (uint64_t)(padded + width * (torch_wants(r, x) && from > to ? 2 * from : from + to));
}

/* cuDNN's: image, result and kernel in another layout, but of depthwise kernels, of single pixels side by
 * side, and where channels come last. */
static uint64_t workspace(const torch_reading *r, const node *n, tape_value x, tape_value w) {
    const conv2d_attributes *t = node_attributes(r->g, n);
    const shape *kernel = graph_shape(r->g, node_in(r->g, n, 1));
    bool depthwise = kernel->dim[1] == 1 && kernel->dim[2] > 1,
         pixels = kernel->dim[2] == 1 && t->stride == 1;
    if (!r->s->cuda || depthwise || pixels || r->channels_last) return 0;
    int64_t elements = torch_elements(r, x) + elements_out(r, n) + torch_elements(r, w);
    return (uint64_t)(torch_width(r, x) * (double)elements);
}

/* As a product: the image is kept where the kernel is trained, the kernel always. */
static void read_convolution(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0), w = torch_in(r, n, 1), bias = torch_in(r, n, 2);
    if (r->s->types == TORCH_AUTOCAST)
        x = torch_to(r, x, 2), w = torch_weight_to(r, w, 2), bias = torch_weight_to(r, bias, 2);
    else
        x = torch_to(r, x, torch_width(r, w));
    tape_call call = { .what = "conv2d", .in = { x, w, bias }, .backward = convolution_extra(r, n, x) };
    call.keeps_in = (torch_wants(r, w) ? 1u : 0) | 2u;
    call.forward = workspace(r, n, x, w);
    if (r->s->cuda) call.backward = call.forward;
    torch_set(r, n, torch_call(r, call, elements_out(r, n), torch_width(r, x)));
}

/* Input, scale, and mean and rstd of each channel in f32. The running averages change where they are. On a
 * CPU the gradient has a buffer of its size beside it. */
static void read_norm(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0), gamma = torch_in(r, n, 1), beta = torch_in(r, n, 2);
    uint64_t numbers = 2 * 4 * (uint64_t)torch_elements(r, gamma);
    uint64_t buffer = r->s->cuda ? 0 : tape_bytes(r->t, x);
    torch_set(r, n,
              torch_call(r,
                         (tape_call){ .what = "batch_norm",
                                      .in = { x, gamma, beta },
                                      .keeps_in = 3,
                                      .kept = numbers,
                                      .backward = buffer },
                         elements_out(r, n), torch_width(r, x)));
}

static void read_nothing(torch_reading *r, const node *n) { (void)r, (void)n; }

static void read_relu(torch_reading *r, const node *n) {
    torch_set(r, n, torch_result_function(r, "relu", torch_in(r, n, 0)));
}

/* x * sigmoid(1.702 * x) */
static void read_quick_gelu(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0);
    torch_set(r, n, torch_multiply(r, x, torch_result_function(r, "sigmoid", torch_scale(r, x))));
}

/* The image, and where the largest were, in int64. */
static void read_pool(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0);
    torch_set(r, n,
              torch_call(r,
                         (tape_call){ .what = "max_pool2d",
                                      .in = { x },
                                      .keeps_in = 1,
                                      .kept = (uint64_t)elements_out(r, n) * 8 },
                         elements_out(r, n), torch_width(r, x)));
}

static void read_mean(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0);
    torch_set(
        r, n,
        torch_call(r, (tape_call){ .what = "mean", .in = { x } }, elements_out(r, n), torch_width(r, x)));
}

static void read_token(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0), token = torch_in(r, n, 1);
    double width = torch_width(r, x) > torch_width(r, token) ? torch_width(r, x) : torch_width(r, token);
    torch_set(r, n,
              torch_call(r, (tape_call){ .what = "cat", .in = { x, token } }, elements_out(r, n), width));
}

static void read_join(torch_reading *r, const node *n) {
    tape_call call = { .what = "cat" };
    for (uint32_t i = 0; i < TAPE_IN && i < n->in_count; i++) call.in[i] = torch_in(r, n, i);
    torch_set(r, n, torch_call(r, call, elements_out(r, n), torch_width(r, call.in[0])));
}

/* The gradient of the factors is the sum over rows of a product as large as the image. */
static void read_scale(torch_reading *r, const node *n) {
    tape_value y = torch_multiply(r, torch_in(r, n, 0), torch_in(r, n, 1));
    ((tape_call *)r->t->calls.data + r->t->calls.count - 1)->backward = tape_bytes(r->t, y);
    torch_set(r, n, y);
}

const torch_rule torch_rules_images[] = { { &op_conv2d, read_convolution },
                                          { &op_batch_norm, read_norm },
                                          { &op_batch_norm_running, read_nothing },
                                          { &op_relu, read_relu },
                                          { &op_quick_gelu, read_quick_gelu },
                                          { &op_max_pool, read_pool },
                                          { &op_mean_space, read_mean },
                                          { &op_class_token, read_token },
                                          { &op_join, read_join },
                                          { &op_column_scale, read_scale },
                                          { 0 } };

bool torch_is_convolution(const node *n) {
    const torch_rule *rule = torch_rule_of(n->op);
    return rule && rule->read == read_convolution;
}
