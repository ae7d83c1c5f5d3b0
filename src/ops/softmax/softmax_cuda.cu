/* Twins of softmax_cpu.c's fast kernels: a warp to a row, of which a thread reads and writes the same places,
 * so the result may live there. Rows up to CUDA_KEPT wide are read once. */
#include "ops/cuda_rows.h"

extern "C" {
#include "ops/softmax/softmax.h"
}

struct softmax_rows {
    cuda_span x, y;
    int64_t width;

    __device__ __forceinline__ void operator()(int64_t row, float *kept) const {
        int64_t at = row * width;
        float top = -INFINITY;
        for (int64_t i = cuda_lane(); i < width; i += GPU_WARP) {
            float one = x.get(at + i);
            kept[i] = one, top = one > top ? one : top;
        }
        top = cuda_warp_largest(top);
        float factor =
            1.0f / cuda_row_sum(width, [&](int64_t i) { return kept[i] = vector_exp(kept[i] - top); });
        for (int64_t i = cuda_lane(); i < width; i += GPU_WARP)
            y.set(at + i, top == -INFINITY ? 0 : kept[i] * factor);
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        float top = -INFINITY;
        for (int64_t i = cuda_lane(); i < width; i += GPU_WARP) {
            float one = x.get(at + i);
            top = one > top ? one : top;
        }
        top = cuda_warp_largest(top);
        float factor = 1.0f / cuda_row_sum(width, [&](int64_t i) { return vector_exp(x.get(at + i) - top); });
        for (int64_t i = cuda_lane(); i < width; i += GPU_WARP)
            y.set(at + i, top == -INFINITY ? 0 : vector_exp(x.get(at + i) - top) * factor);
    }
};

struct softmax_slopes {
    cuda_span y, dy, dx;
    int64_t width;

    __device__ __forceinline__ void operator()(int64_t row, float *kept) const {
        int64_t at = row * width;
        float *slopes = kept + width;
        float sum = cuda_row_sum(width, [&](int64_t i) {
            kept[i] = y.get(at + i), slopes[i] = dy.get(at + i);
            return kept[i] * slopes[i];
        });
        for (int64_t i = cuda_lane(); i < width; i += GPU_WARP) dx.set(at + i, kept[i] * (slopes[i] - sum));
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        float sum = cuda_row_sum(width, [&](int64_t i) { return y.get(at + i) * dy.get(at + i); });
        for (int64_t i = cuda_lane(); i < width; i += GPU_WARP)
            dx.set(at + i, y.get(at + i) * (dy.get(at + i) - sum));
    }
};

static void run(const op_call *c) {
    softmax_rows f = { cuda_in(c, 0), cuda_out(c, 0), shape_last(&c->out[0].shape) };
    int64_t rows = shape_rows(&c->out[0].shape);
    if (f.width > CUDA_KEPT)
        cuda_rows(rows, f);
    else
        cuda_rows_kept(rows, f.width, f);
}

static void run_backward(const op_call *c) {
    softmax_slopes f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), shape_last(&c->out[0].shape) };
    int64_t rows = shape_rows(&c->out[0].shape);
    if (f.width > CUDA_KEPT)
        cuda_rows(rows, f);
    else
        cuda_rows_kept(rows, 2 * f.width, f);
}

CUDA_KERNELS(softmax_cuda, { "softmax_cuda_rows", cuda_accepts, NULL, run });
CUDA_KERNELS(softmax_backward_cuda, { "softmax_backward_cuda_rows", cuda_accepts, NULL, run_backward });
