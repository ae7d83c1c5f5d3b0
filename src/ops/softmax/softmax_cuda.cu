/* Twins of softmax_cpu.c's fast kernels, whose sums run over sixteen lanes: half a warp to a row. What a
 * thread reads of a row it alone writes, so the result may live there. */
#include "ops/cuda_order.h"

extern "C" {
#include "ops/softmax/softmax.h"
}
#include "ops/vector_math.h"

/* What sixteen threads have, as a tree: in all of them. All threads of the warp must be here. */
GPU_INLINE float sum_of_sixteen(float x) {
    for (int lanes = CUDA_SIXTEEN / 2; lanes; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

GPU_INLINE float largest_of_sixteen(float x) {
    for (int lanes = CUDA_SIXTEEN / 2; lanes; lanes /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, x, lanes);
        x = other > x ? other : x;
    }
    return x;
}

struct softmax_rows {
    cuda_span x, y;
    int64_t width;

    /* n is `width`, or 0 where there is no such row. */
    __device__ __forceinline__ void run(int64_t at, int64_t n) const {
        float top = -INFINITY, sum = 0;
        for (int64_t i = cuda_lane_of_sixteen(); i < n; i += CUDA_SIXTEEN) {
            float one = x.get(at + i);
            top = one > top ? one : top;
        }
        top = largest_of_sixteen(top);
        for (int64_t i = cuda_lane_of_sixteen(); i < n; i += CUDA_SIXTEEN)
            sum += vector_exp(x.get(at + i) - top);
        float factor = 1.0f / sum_of_sixteen(sum);
        for (int64_t i = cuda_lane_of_sixteen(); i < n; i += CUDA_SIXTEEN)
            y.set(at + i, top == -INFINITY ? 0 : vector_exp(x.get(at + i) - top) * factor);
    }
};

struct softmax_slopes {
    cuda_span y, dy, dx;
    int64_t width;

    __device__ __forceinline__ void run(int64_t at, int64_t n) const {
        float sum = 0;
        for (int64_t i = cuda_lane_of_sixteen(); i < n; i += CUDA_SIXTEEN)
            sum += y.get(at + i) * dy.get(at + i);
        sum = sum_of_sixteen(sum);
        for (int64_t i = cuda_lane_of_sixteen(); i < n; i += CUDA_SIXTEEN)
            dx.set(at + i, y.get(at + i) * (dy.get(at + i) - sum));
    }
};

template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) softmax_kernel(F f, int64_t rows) {
    int64_t row = (int64_t)blockIdx.x * CUDA_SIXTEENS + threadIdx.x / CUDA_SIXTEEN;
    f.run(row * f.width, row < rows ? f.width : 0);
}

template <class F>
static void run_rows(const op_call *c, const F &f) {
    int64_t rows = shape_rows(&c->out[0].shape);
    if (rows > 0) GPU_LAUNCH((softmax_kernel<F>), gpu_blocks(rows, CUDA_SIXTEENS), GPU_BLOCK, 0, f, rows);
}

static void run(const op_call *c) {
    softmax_rows f = { cuda_in(c, 0), cuda_out(c, 0), shape_last(&c->out[0].shape) };
    run_rows(c, f);
}

static void run_backward(const op_call *c) {
    softmax_slopes f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), shape_last(&c->out[0].shape) };
    run_rows(c, f);
}

CUDA_KERNELS(softmax_cuda, { "softmax_cuda_half_warps", cuda_accepts, NULL, run });
CUDA_KERNELS(softmax_backward_cuda, { "softmax_backward_cuda_half_warps", cuda_accepts, NULL, run_backward });
