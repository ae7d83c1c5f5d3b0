/* Twin of sum_squares_cpu.c's fast kernel. */
#include "ops/cuda_order.h"

extern "C" {
#include "ops/sum_squares/sum_squares.h"
}

struct sum_squares_tiles {
    cuda_span x;
    int64_t n;
    double *tiles;

    __device__ __forceinline__ int64_t begin(int64_t tile) const {
        return tile * SUM_SQUARES_TILE < n ? tile * SUM_SQUARES_TILE : n;
    }
    __device__ __forceinline__ void add(double &sum, float number) const {
        double one = (double)number;
        sum = fma(one, one, sum); /* the product is exact */
    }
    __device__ __forceinline__ void end(int64_t tile, double sum) const { tiles[tile] = sum; }
};

static int64_t tiles_of(const op_call *c) {
    return (shape_elements(&c->in[0].shape) + SUM_SQUARES_TILE - 1) / SUM_SQUARES_TILE;
}

static uint64_t scratch(const op_call *c, int) { return (uint64_t)tiles_of(c) * sizeof(double); }

static void run(const op_call *c) {
    double *tiles = (double *)c->scratch;
    sum_squares_tiles f = { cuda_in(c, 0), shape_elements(&c->in[0].shape), tiles };
    cuda_sum_of_pieces all = { tiles, (float *)c->out[0].data };
    cuda_sixteen(tiles_of(c), f, all);
}

CUDA_KERNELS(sum_squares_cuda, { "sum_squares_cuda_tiles", cuda_accepts, scratch, run });
