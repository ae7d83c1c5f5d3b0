/* Twins of sum_cpu.c's fast kernels. */
#include "ops/cuda_order.h"

extern "C" {
#include "base/threads.h"
#include "ops/sum/sum.h"
}

struct sum_of_tiles {
    cuda_span x;
    int64_t rows, width;
    double *tiles;

    __device__ __forceinline__ int64_t begin(int64_t tile) const {
        int64_t row = tile * THREADS_ROW_TILE;
        return (row < rows ? row : rows) * width;
    }
    __device__ __forceinline__ void add(double &sum, float number) const { sum += (double)number; }
    __device__ __forceinline__ void end(int64_t tile, double sum) const { tiles[tile] = sum; }
};

/* Of 16 bits the sum is rounded to them after each tile, as by the CPU. */
struct sum_of_all {
    const double *tiles;
    cuda_span accumulator, y;

    __device__ __forceinline__ float start(int64_t) const { return cuda_number(accumulator, 0); }
    __device__ __forceinline__ double term(int64_t i) const { return tiles[i]; }
    __device__ __forceinline__ void add(float &to, int64_t, double x) const {
        if (y.type == DTYPE_F32)
            to += (float)x;
        else if (y.type == DTYPE_BF16)
            to = half_from_bf16(half_to_bf16((float)((double)to + x)));
        else
            to = half_from_f16(half_to_f16((float)((double)to + x)));
    }
    __device__ __forceinline__ void end(int64_t, float x) const { y.set(0, x); }
};

static int64_t tiles_of(const op_call *c) {
    return (shape_rows(&c->in[0].shape) + THREADS_ROW_TILE - 1) / THREADS_ROW_TILE;
}

static uint64_t scratch(const op_call *c, int) { return (uint64_t)tiles_of(c) * sizeof(double); }

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    sum_of_tiles f = { cuda_in(c, 0), shape_rows(x), shape_last(x), (double *)c->scratch };
    sum_of_all all = { f.tiles, cuda_in(c, 1), cuda_out(c, 0) };
    cuda_sixteen(tiles_of(c), f, all);
}

struct sum_slope {
    cuda_span dy, dx;
    __device__ __forceinline__ void operator()(int64_t i) const { dx.set(i, dy.get(0)); }
};

static void run_backward(const op_call *c) {
    sum_slope f = { cuda_in(c, 0), cuda_out(c, 0) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(sum_cuda, { "sum_cuda_tiles", cuda_accepts, scratch, run });
CUDA_KERNELS(sum_backward_cuda, { "sum_backward_cuda_map", cuda_accepts, NULL, run_backward });
