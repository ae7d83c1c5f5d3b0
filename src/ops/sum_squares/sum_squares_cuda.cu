/* Twin of sum_squares_cpu.c's fast kernel. */
#include "ops/cuda_order.h"
#include "ops/cuda_sweep.h"

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

struct sum_squares_call {
    sum_squares_tiles f;
    cuda_sum_of_pieces all;
    int64_t tiles;
};
static sum_squares_call call_of(const op_call *c) {
    double *tiles = (double *)c->scratch;
    return { { cuda_in(c, 0), shape_elements(&c->in[0].shape), tiles },
             { tiles, (float *)c->out[0].data },
             tiles_of(c) };
}

static void run(const op_call *c) {
    sum_squares_call call = call_of(c);
    cuda_sixteen(call.tiles, call.f, call.all);
}

/* Tiles of all calls, then the sum of each: a block to a call. */
void sum_squares_cuda_sweep(const op_call *calls, uint32_t count) {
    cuda_sweep_calls<sum_squares_call>(
        calls, count, call_of,
        [](const sum_squares_call &c) { return c.tiles ? gpu_blocks(c.tiles, CUDA_SIXTEENS) : 1; },
        [](const cuda_sweep<sum_squares_call> &all) {
            GPU_LAUNCH((cuda_sixteen_sweep_kernel<cuda_sweep<sum_squares_call>>), all.blocks, GPU_BLOCK, 0,
                       all);
            GPU_LAUNCH((cuda_in_order_sweep_kernel<cuda_sweep<sum_squares_call>>), all.count, GPU_BLOCK,
                       GPU_BLOCK * sizeof(double), all);
        });
}

CUDA_KERNELS(sum_squares_cuda, { "sum_squares_cuda_tiles", cuda_accepts, scratch, run });
