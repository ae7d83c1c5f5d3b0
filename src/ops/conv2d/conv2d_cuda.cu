/* Convolutions and their gradients as products of gathered rows, in the order of the plain product
 * (matmul_tile_cuda.h): slices of MATMUL_SLICE numbers, each by one fused multiply-add; what lies outside of
 * the image is 0.
 *
 *   y    rows: places of y,   columns: outputs,       sums over (u, v, channel)
 *   dx   rows: places of x,   columns: channels,      sums over (u, v, output)
 *   dw   rows: outputs,       columns: (channel, u, v), sums over the places of y
 *
 * Each group is a product of its own. Where a group's has few columns, as of a depthwise convolution, a
 * thread makes a sum by itself, with the same bits. */
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/conv2d/conv2d_math.h"
}

/* ---- operands ---- */

struct conv2d_images { /* of y */
    cuda_span x;
    conv2d_sizes n;
    bool along;
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        int64_t channel = depth % n.channels, uv = depth / n.channels;
        int64_t at = conv2d_seen(&n, { line, uv / n.kernel_width, uv % n.kernel_width, channel });
        return at < 0 ? 0.0f : x.get(at);
    }
};

struct conv2d_kernels {
    cuda_span w;
    conv2d_sizes n;
    bool along;
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        int64_t channel = depth % n.channels, uv = depth / n.channels;
        return w.get(conv2d_weight(&n, line, channel, uv / n.kernel_width, uv % n.kernel_width));
    }
};

struct conv2d_slopes { /* of dx: dy at the places that see a place of x through (u, v) */
    cuda_span dy;
    conv2d_sizes n;
    bool along;
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        int64_t output = depth % n.outputs, uv = depth / n.outputs;
        int64_t at = conv2d_seer(&n, { line, uv / n.kernel_width, uv % n.kernel_width, output });
        return at < 0 ? 0.0f : dy.get(at);
    }
};

struct conv2d_kernels_turned {
    cuda_span w;
    conv2d_sizes n;
    bool along;
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        int64_t output = depth % n.outputs, uv = depth / n.outputs;
        return w.get(conv2d_weight(&n, output, line, uv / n.kernel_width, uv % n.kernel_width));
    }
};

struct conv2d_slopes_down { /* of dw: an output's dy, place after place */
    cuda_span dy;
    conv2d_sizes n;
    bool along;
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        return dy.get(depth * n.all_outputs + n.group * n.outputs + line);
    }
};

struct conv2d_images_down { /* what the places saw through a weight */
    cuda_span x;
    conv2d_sizes n;
    bool along;
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        int64_t v = line % n.kernel_width, u = line / n.kernel_width % n.kernel_height;
        int64_t at = conv2d_seen(&n, { depth, u, v, line / n.kernel_width / n.kernel_height });
        return at < 0 ? 0.0f : x.get(at);
    }
};

/* ---- products ---- */

/* Row r, column k of a group's result: element r * stride + k. */
struct conv2d_end {
    cuda_span bias, accumulator, y; /* the first two may be absent */
    int64_t stride, first, first_bias;
    bool fours = false;

    __device__ __forceinline__ float before(int64_t row, int64_t column) const {
        return accumulator.data ? accumulator.get(first + row * stride + column) : 0;
    }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        y.set(first + row * stride + column, bias.data ? sum + bias.get(first_bias + column) : sum);
    }
    __device__ __forceinline__ void before4(int64_t row, int64_t column, float x[4]) const {
        matmul_before4(accumulator, first + row * stride + column, x);
    }
    __device__ __forceinline__ void end4(int64_t row, int64_t column, float x[4]) const {
        matmul_add4(bias, first_bias + column, x);
        y.set4(first + row * stride + column, x);
    }
};

/* One sum of any group; `columns` of each stand side by side if `beside`, else groups follow each other. */
template <class A, class B>
struct conv2d_one {
    A a;
    B b;
    conv2d_end e;
    matmul_extent n; /* of a group */
    int64_t groups, step;
    bool beside;

    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t column = i % n.columns, rest = i / n.columns;
        int64_t group = beside ? rest % groups : rest / n.rows, row = beside ? rest / groups : rest % n.rows;
        A of_a = a;
        B of_b = b;
        conv2d_end end = e;
        of_a.n.group = of_b.n.group = group;
        end.first = group * step, end.first_bias = group * n.columns;
        float sum = end.before(row, column);
        for (int64_t d = 0; d < n.depth;) {
            float slice = 0;
            for (int64_t stop = d + MATMUL_SLICE; d < n.depth && d < stop; d++)
                slice = fmaf(of_a.get(row, d), of_b.get(column, d), slice);
            sum = sum + slice;
        }
        end.end(row, column, sum);
    }
};

/* Group g of the result begins `step` elements after the one before it. */
template <class A, class B>
static void conv2d_product(A a, B b, conv2d_end e, const matmul_extent &n, int64_t groups, int64_t step) {
    if (groups > 1 && n.columns < 32) {
        conv2d_one<A, B> one = { a, b, e, n, groups, step, step == n.columns };
        cuda_each_long(groups * n.rows * n.columns, one);
        return;
    }
    e.fours = n.columns % 4 == 0 && step % 4 == 0 && matmul_fours(e.stride, e.bias, e.accumulator, e.y);
    for (int64_t g = 0; g < groups; g++) {
        a.n.group = b.n.group = g;
        e.first = g * step, e.first_bias = g * n.columns;
        matmul_gathered(a, b, e, n);
    }
}

static void run(const op_call *c) {
    const conv2d_attributes *t = (const conv2d_attributes *)c->attributes;
    const op_arg *x = op_in(c, 0), *w = op_in(c, 1), *y = &c->out[0];
    conv2d_sizes s = conv2d_sizes_of(&x->shape, &w->shape, &y->shape, t);
    conv2d_images a = { cuda_span_of(x), s, true };
    conv2d_kernels b = { cuda_span_of(w), s, true };
    conv2d_end e = { cuda_in(c, 2), {}, cuda_span_of(y), s.all_outputs, 0, 0 };
    matmul_extent n = { shape_rows(&y->shape), s.outputs, s.kernel_height * s.kernel_width * s.channels };
    conv2d_product(a, b, e, n, t->groups, s.outputs);
}

static void run_data(const op_call *c) {
    const conv2d_attributes *t = &((const conv2d_backward_attributes *)c->attributes)->of;
    const op_arg *dy = op_in(c, 0), *w = op_in(c, 1), *dx = &c->out[0];
    conv2d_sizes s = conv2d_sizes_of(&dx->shape, &w->shape, &dy->shape, t);
    conv2d_slopes a = { cuda_span_of(dy), s, true };
    conv2d_kernels_turned b = { cuda_span_of(w), s, false };
    conv2d_end e = { {}, {}, cuda_span_of(dx), s.all_channels, 0, 0 };
    matmul_extent n = { shape_rows(&dx->shape), s.channels, s.kernel_height * s.kernel_width * s.outputs };
    conv2d_product(a, b, e, n, t->groups, s.channels);
}

static void run_weights(const op_call *c) {
    const conv2d_attributes *t = &((const conv2d_backward_attributes *)c->attributes)->of;
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1), *dw = &c->out[0];
    conv2d_sizes s = conv2d_sizes_of(&x->shape, &dw->shape, &dy->shape, t);
    conv2d_slopes_down a = { cuda_span_of(dy), s, false };
    conv2d_images_down b = { cuda_span_of(x), s, false };
    matmul_extent n = { s.outputs, s.channels * s.kernel_height * s.kernel_width, shape_rows(&dy->shape) };
    conv2d_end e = { {}, cuda_in(c, 2), cuda_span_of(dw), n.columns, 0, 0 };
    conv2d_product(a, b, e, n, t->groups, n.rows * n.columns);
}

CUDA_KERNELS(conv2d_cuda, { "conv2d_cuda_plain", cuda_accepts, NULL, run });
CUDA_KERNELS(conv2d_data_cuda, { "conv2d_data_cuda_plain", cuda_accepts, NULL, run_data });
CUDA_KERNELS(conv2d_weights_cuda, { "conv2d_weights_cuda_plain", cuda_accepts, NULL, run_weights });
