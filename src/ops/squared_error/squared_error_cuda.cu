/* Twins of squared_error_cpu.c's kernels: a number for each sample of a batch, in double as there. */
#include "ops/cuda_order.h"

extern "C" {
#include "base/threads.h"
#include "ops/squared_error/squared_error.h"
}

struct squared_error_tiles {
    cuda_span x, target;
    double *tiles;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const {
        double away = (double)x.get(i) - (double)target.get(i);
        return away * away;
    }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t tile, double sum) const { tiles[tile] = sum; }
};

static int64_t numbers_of(const op_call *c) { return shape_elements(&c->in[0].shape); }

static uint64_t scratch(const op_call *c, int) {
    return (uint64_t)cuda_pieces(numbers_of(c), THREADS_ROW_TILE) * sizeof(double);
}

static void run(const op_call *c) {
    int64_t n = numbers_of(c), tiles = cuda_pieces(n, THREADS_ROW_TILE);
    squared_error_tiles f = { cuda_in(c, 0), cuda_in(c, 1), (double *)c->scratch };
    cuda_loss_of_tiles loss = { f.tiles, cuda_in(c, 2), cuda_in(c, 3), cuda_out(c, 0) };
    cuda_in_order(n, THREADS_ROW_TILE, f);
    cuda_in_order(tiles, tiles, loss);
}

struct squared_error_slopes {
    cuda_span x, target, scale, dloss, dx;

    __device__ __forceinline__ void operator()(int64_t i) const {
        double slope = 2 * (double)scale.get(0) * (double)dloss.get(0);
        dx.set(i, (float)(slope * ((double)x.get(i) - (double)target.get(i))));
    }
};

static void run_backward(const op_call *c) {
    squared_error_slopes f = { cuda_in(c, 0), cuda_in(c, 1), cuda_in(c, 2), cuda_in(c, 3), cuda_out(c, 0) };
    cuda_each(numbers_of(c), f);
}

CUDA_KERNELS(squared_error_cuda, { "squared_error_cuda_in_order", cuda_accepts, scratch, run });
CUDA_KERNELS(squared_error_backward_cuda,
             { "squared_error_backward_cuda_map", cuda_accepts, NULL, run_backward });
