/* Twin of square_tiles_cpu.c's fast kernel. */
#include "ops/cuda_order.h"

extern "C" {
#include "ops/square_tiles/square_tiles.h"
#include "ops/sum_squares/sum_squares.h"
}

struct square_tiles_all {
    cuda_span x;
    int64_t n; /* of the whole's elements, in this share */
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

static void run(const op_call *c) {
    const square_tiles_attributes *a = (const square_tiles_attributes *)c->attributes;
    int64_t tiles = shape_elements(&c->out[0].shape), held = shape_elements(&c->in[0].shape);
    int64_t left = a->whole - c->first, n = left < 0 ? 0 : left < held ? left : held;
    square_tiles_all f = { cuda_in(c, 0), n, (double *)c->out[0].data };
    GPU_LAUNCH((cuda_sixteen_kernel<square_tiles_all>), gpu_blocks(tiles, CUDA_SIXTEENS), GPU_BLOCK, 0, f,
               tiles);
}

static bool accepts(const op_call *c) { return c->in[0].dtype != DTYPE_F64; }

CUDA_KERNELS(square_tiles_cuda, { "square_tiles_cuda_sixteen", accepts, NULL, run });
