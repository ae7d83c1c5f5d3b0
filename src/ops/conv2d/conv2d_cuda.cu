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

/* ---- operands ----
 * In parts, of a line and of a depth (matmul_tile_cuda.h): a thread divides seldom. */

struct conv2d_weight_at {
    int64_t u, v, number;
};
/* Of weights that lie as (u, v, number). */
GPU_INLINE conv2d_weight_at conv2d_weight_of(const conv2d_sizes &n, int64_t i, int64_t numbers) {
    conv2d_quotient number = conv2d_divide(i, numbers), v = conv2d_divide(number.whole, n.kernel_width);
    return { v.whole, v.rest, number.rest };
}

struct conv2d_images { /* of y */
    cuda_span x;
    conv2d_sizes n;
    static constexpr bool along = true;
    __device__ __forceinline__ conv2d_window of_line(int64_t line) const {
        return conv2d_window_of_y(&n, line);
    }
    __device__ __forceinline__ conv2d_weight_at of_depth(int64_t depth) const {
        return conv2d_weight_of(n, depth, n.channels);
    }
    __device__ __forceinline__ float get(const conv2d_window &line, const conv2d_weight_at &depth) const {
        int64_t at = conv2d_seen_in(&n, line, depth.u, depth.v, depth.number);
        return at < 0 ? 0.0f : x.get(at);
    }
};

struct conv2d_kernels {
    cuda_span w;
    conv2d_sizes n;
    static constexpr bool along = true;
    __device__ __forceinline__ int64_t of_line(int64_t line) const {
        return conv2d_weight(&n, line, 0, 0, 0);
    }
    __device__ __forceinline__ int64_t of_depth(int64_t depth) const {
        conv2d_weight_at at = conv2d_weight_of(n, depth, n.channels);
        return (at.number * n.kernel_height + at.u) * n.kernel_width + at.v;
    }
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const { return w.get(line + depth); }
};

struct conv2d_slopes { /* of dx: dy at the places that see a place of x through (u, v) */
    cuda_span dy;
    conv2d_sizes n;
    static constexpr bool along = true;
    __device__ __forceinline__ conv2d_window of_line(int64_t line) const {
        return conv2d_window_of_x(&n, line);
    }
    __device__ __forceinline__ conv2d_weight_at of_depth(int64_t depth) const {
        return conv2d_weight_of(n, depth, n.outputs);
    }
    __device__ __forceinline__ float get(const conv2d_window &line, const conv2d_weight_at &depth) const {
        int64_t at = conv2d_seer_in(&n, line, depth.u, depth.v, depth.number);
        return at < 0 ? 0.0f : dy.get(at);
    }
};

struct conv2d_kernels_turned {
    cuda_span w;
    conv2d_sizes n;
    static constexpr bool along = false;
    __device__ __forceinline__ int64_t of_line(int64_t line) const {
        return line * n.kernel_height * n.kernel_width;
    }
    __device__ __forceinline__ int64_t of_depth(int64_t depth) const {
        conv2d_weight_at at = conv2d_weight_of(n, depth, n.outputs);
        return conv2d_weight(&n, at.number, 0, at.u, at.v);
    }
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const { return w.get(line + depth); }
};

struct conv2d_slopes_down { /* of dw: an output's dy, place after place */
    cuda_span dy;
    conv2d_sizes n;
    static constexpr bool along = false;
    __device__ __forceinline__ int64_t of_line(int64_t line) const { return n.group * n.outputs + line; }
    __device__ __forceinline__ int64_t of_depth(int64_t depth) const { return depth * n.all_outputs; }
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const { return dy.get(line + depth); }
};

struct conv2d_images_down { /* what the places saw through a weight */
    cuda_span x;
    conv2d_sizes n;
    static constexpr bool along = false;
    __device__ __forceinline__ conv2d_weight_at of_line(int64_t line) const {
        conv2d_quotient v = conv2d_divide(line, n.kernel_width), u = conv2d_divide(v.whole, n.kernel_height);
        return { u.rest, v.rest, u.whole };
    }
    __device__ __forceinline__ conv2d_window of_depth(int64_t depth) const {
        return conv2d_window_of_y(&n, depth);
    }
    __device__ __forceinline__ float get(const conv2d_weight_at &line, const conv2d_window &depth) const {
        int64_t at = conv2d_seen_in(&n, depth, line.u, line.v, line.number);
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
        auto line = of_a.of_line(row);
        auto beside_it = of_b.of_line(column);
        float sum = end.before(row, column);
        for (int64_t d = 0; d < n.depth;) {
            float slice = 0;
            for (int64_t stop = d + MATMUL_SLICE; d < n.depth && d < stop; d++)
                slice = fmaf(of_a.get(line, of_a.of_depth(d)), of_b.get(beside_it, of_b.of_depth(d)), slice);
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
    conv2d_images a = { cuda_span_of(x), s };
    conv2d_kernels b = { cuda_span_of(w), s };
    conv2d_end e = { cuda_in(c, 2), {}, cuda_span_of(y), s.all_outputs, 0, 0 };
    matmul_extent n = { shape_rows(&y->shape), s.outputs, s.kernel_height * s.kernel_width * s.channels };
    conv2d_product(a, b, e, n, t->groups, s.outputs);
}

static void run_data(const op_call *c) {
    const conv2d_attributes *t = &((const conv2d_backward_attributes *)c->attributes)->of;
    const op_arg *dy = op_in(c, 0), *w = op_in(c, 1), *dx = &c->out[0];
    conv2d_sizes s = conv2d_sizes_of(&dx->shape, &w->shape, &dy->shape, t);
    conv2d_slopes a = { cuda_span_of(dy), s };
    conv2d_kernels_turned b = { cuda_span_of(w), s };
    conv2d_end e = { {}, {}, cuda_span_of(dx), s.all_channels, 0, 0 };
    matmul_extent n = { shape_rows(&dx->shape), s.channels, s.kernel_height * s.kernel_width * s.outputs };
    conv2d_product(a, b, e, n, t->groups, s.channels);
}

static void run_weights(const op_call *c) {
    const conv2d_attributes *t = &((const conv2d_backward_attributes *)c->attributes)->of;
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1), *dw = &c->out[0];
    conv2d_sizes s = conv2d_sizes_of(&x->shape, &dw->shape, &dy->shape, t);
    conv2d_slopes_down a = { cuda_span_of(dy), s };
    conv2d_images_down b = { cuda_span_of(x), s };
    matmul_extent n = { s.outputs, s.channels * s.kernel_height * s.kernel_width, shape_rows(&dy->shape) };
    conv2d_end e = { {}, cuda_in(c, 2), cuda_span_of(dw), n.columns, 0, 0 };
    conv2d_product(a, b, e, n, t->groups, n.rows * n.columns);
}

CUDA_KERNELS(conv2d_cuda, { "conv2d_cuda_plain", cuda_accepts, NULL, run });
CUDA_KERNELS(conv2d_data_cuda, { "conv2d_data_cuda_plain", cuda_accepts, NULL, run_data });
CUDA_KERNELS(conv2d_weights_cuda, { "conv2d_weights_cuda_plain", cuda_accepts, NULL, run_weights });
