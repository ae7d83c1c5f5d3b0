/* Sums in double in the CPU's order, where that is not the one of rows (ops/cuda_rows.h): one term after the
 * other; tiles of numbers over sixteen lanes. */
#pragma once

#include "ops/cuda.h"

/* ---- one term after the other ----
 * A block has `each` of n terms, a piece: its threads work out f.term(i), and one of them f.add(sum, i,
 * term), to a sum that begins as f.start(piece) and of which f.end(piece, sum) hears. */

template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_in_order_kernel(F f, int64_t n, int64_t each) {
    GPU_SHARED(double, terms);
    int64_t piece = blockIdx.x, first = piece * each, last = first + each < n ? first + each : n;
    auto sum = f.start(piece);
    for (int64_t at = first; at < last; at += GPU_BLOCK) {
        int here = last - at < GPU_BLOCK ? (int)(last - at) : GPU_BLOCK;
        if ((int)threadIdx.x < here) terms[threadIdx.x] = f.term(at + threadIdx.x);
        __syncthreads();
        if (threadIdx.x == 0)
            for (int k = 0; k < here; k++) f.add(sum, at + k, terms[k]);
        __syncthreads();
    }
    if (threadIdx.x == 0) f.end(piece, sum);
}

static inline int64_t cuda_pieces(int64_t n, int64_t each) { return n > each ? (n + each - 1) / each : 1; }

/* Without terms there is a piece all the same. */
template <class F>
static void cuda_in_order(int64_t n, int64_t each, const F &f) {
    GPU_LAUNCH((cuda_in_order_kernel<F>), (unsigned)cuda_pieces(n, each), GPU_BLOCK,
               GPU_BLOCK * sizeof(double), f, n, each);
}

/* Sums of pieces, one after the other, into where they are wanted. */
struct cuda_sum_of_pieces {
    const double *pieces;
    float *sum;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const { return pieces[i]; }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t, double x) const { *sum = (float)x; }
};

/* A loss from the sums of its tiles: loss + scale tile_sum, rounded after each tile. */
struct cuda_loss_of_tiles {
    const double *tiles;
    cuda_span scale, accumulator, loss; /* accumulator.data may be NULL */

    __device__ __forceinline__ float start(int64_t) const { return cuda_number(accumulator, 0); }
    __device__ __forceinline__ double term(int64_t i) const { return (double)scale.get(0) * tiles[i]; }
    __device__ __forceinline__ void add(float &to, int64_t, double x) const { to = (float)((double)to + x); }
    __device__ __forceinline__ void end(int64_t, float x) const { loss.set(0, x); }
};

/* ---- tiles over sixteen lanes ----
 * Number i of a tile goes to lane i % 16 as long as all lanes have one. What is left is added first, then the
 * lanes, one after the other. Half a warp has a tile, a thread each of its lanes. */

enum { CUDA_SIXTEEN = 16, CUDA_SIXTEENS = GPU_BLOCK / CUDA_SIXTEEN /* of a block */ };

GPU_INLINE int cuda_lane_of_sixteen() { return (int)threadIdx.x % CUDA_SIXTEEN; }

/* f.begin(tile), of tiles + 1, are the numbers at which tiles begin; f.add(sum, i) adds number i; f.end(tile,
 * sum) hears of the sum. */
template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_sixteen_kernel(F f, int64_t tiles) {
    int64_t tile = (int64_t)blockIdx.x * CUDA_SIXTEENS + threadIdx.x / CUDA_SIXTEEN;
    int64_t first = tile < tiles ? f.begin(tile) : 0, last = tile < tiles ? f.begin(tile + 1) : 0;
    int64_t whole = last - (last - first) % CUDA_SIXTEEN;
    double lane = 0, sum = 0;
#pragma unroll 4
    for (int64_t i = first + cuda_lane_of_sixteen(); i < whole; i += CUDA_SIXTEEN) f.add(lane, i);
    for (int64_t i = whole; i < last; i++) f.add(sum, i);
    for (int j = 0; j < CUDA_SIXTEEN; j++)
        sum += __shfl_sync(0xffffffffu, lane, (int)(threadIdx.x & (GPU_WARP / 2)) + j);
    if (tile < tiles && cuda_lane_of_sixteen() == 0) f.end(tile, sum);
}

template <class F>
static void cuda_sixteen(int64_t tiles, const F &f) {
    if (tiles > 0)
        GPU_LAUNCH((cuda_sixteen_kernel<F>), gpu_blocks(tiles, CUDA_SIXTEENS), GPU_BLOCK, 0, f, tiles);
}
