/* Sums in double in the CPU's order, where that is not the one of rows (ops/cuda_rows.h): one term after the
 * other; tiles of numbers over sixteen lanes.
 *
 * What bounds them: sums of few terms by the time that an addition takes, since each waits for the one before
 * (and in double, of which most GPUs for graphics make a 64th of what they make in f32). Sixteen lanes of
 * many tiles are bound by memory. */
#pragma once

#include "ops/cuda.h"

/* ---- one term after the other ----
 * A block has `each` of n terms, a piece: its threads work out f.term(i), and one of them f.add(sum, i,
 * term), to a sum that begins as f.start(piece) and of which f.end(piece, sum) hears. */

/* The next terms are on their way while these are added: the chain of additions takes longer than they. */
template <class F>
GPU_INLINE void cuda_in_order_piece(const F &f, int64_t piece, int64_t n, int64_t each) {
    GPU_SHARED(double, terms);
    int64_t first = piece * each, last = first + each < n ? first + each : n;
    auto sum = f.start(piece);
    int64_t own = first + threadIdx.x;
    double term = own < last ? f.term(own) : 0;
    for (int64_t at = first; at < last; at += GPU_BLOCK) {
        int here = last - at < GPU_BLOCK ? (int)(last - at) : GPU_BLOCK;
        terms[threadIdx.x] = term;
        __syncthreads();
        own = at + GPU_BLOCK + threadIdx.x;
        if (own < last) term = f.term(own);
        if (threadIdx.x == 0)
#pragma unroll 8
            for (int k = 0; k < here; k++) f.add(sum, at + k, terms[k]);
        __syncthreads();
    }
    if (threadIdx.x == 0) f.end(piece, sum);
}
template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_in_order_kernel(F f, int64_t n, int64_t each) {
    cuda_in_order_piece(f, (int64_t)blockIdx.x, n, each);
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

/* Terms of a thread that are read before the first of them is added. */
enum { CUDA_SIXTEEN_AHEAD = 16 };

/* The sum of a tile, in all of its threads; 0 beyond the last tile. */
template <class F>
GPU_INLINE double cuda_sixteen_sum(const F &f, int64_t tile, int64_t tiles) {
    int64_t first = tile < tiles ? f.begin(tile) : 0, last = tile < tiles ? f.begin(tile + 1) : 0;
    int64_t whole = last - (last - first) % CUDA_SIXTEEN;
    double lane = 0, sum = 0;
    for (int64_t i = first + cuda_lane_of_sixteen(); i < whole; i += CUDA_SIXTEEN * CUDA_SIXTEEN_AHEAD) {
        float x[CUDA_SIXTEEN_AHEAD];
        f.x.get_some(i, CUDA_SIXTEEN, whole, x);
#pragma unroll
        for (int k = 0; k < CUDA_SIXTEEN_AHEAD; k++)
            if (i + k * CUDA_SIXTEEN < whole) f.add(lane, x[k]);
    }
    for (int64_t i = whole; i < last; i++) f.add(sum, f.x.get(i));
    for (int j = 0; j < CUDA_SIXTEEN; j++)
        sum += __shfl_sync(0xffffffffu, lane, (int)(threadIdx.x & (GPU_WARP / 2)) + j);
    return sum;
}

/* f.x are the numbers; f.begin(tile), of tiles + 1, where tiles begin among them; f.add(sum, x) adds one;
 * f.end(tile, sum) hears of the sum. */
template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_sixteen_kernel(F f, int64_t tiles) {
    int64_t tile = (int64_t)blockIdx.x * CUDA_SIXTEENS + threadIdx.x / CUDA_SIXTEEN;
    double sum = cuda_sixteen_sum(f, tile, tiles);
    if (tile < tiles && cuda_lane_of_sixteen() == 0) f.end(tile, sum);
}

/* The same for tiles of one block, and their sums in order into `all`, as cuda_in_order has it. */
template <class F, class A>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_sixteen_few_kernel(F f, A all, int64_t tiles) {
    GPU_SHARED(double, sums);
    int tile = (int)threadIdx.x / CUDA_SIXTEEN;
    double sum = cuda_sixteen_sum(f, tile, tiles);
    if (cuda_lane_of_sixteen() == 0) sums[tile] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    auto whole = all.start(0);
    for (int t = 0; t < tiles; t++) all.add(whole, t, sums[t]);
    all.end(0, whole);
}

/* Both of several calls at once (ops/cuda_sweep.h): of each `tiles` of `f`, and then `all` of them. */
template <class S>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_sixteen_sweep_kernel(S sweep) {
    const int call = sweep.find(blockIdx.x);
    const auto &c = sweep.of[call];
    int64_t tile = (int64_t)(blockIdx.x - sweep.begin[call]) * CUDA_SIXTEENS + threadIdx.x / CUDA_SIXTEEN;
    double sum = cuda_sixteen_sum(c.f, tile, c.tiles);
    if (tile < c.tiles && cuda_lane_of_sixteen() == 0) c.f.end(tile, sum);
}
template <class S>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_in_order_sweep_kernel(S sweep) {
    const auto &c = sweep.of[blockIdx.x];
    cuda_in_order_piece(c.all, 0, c.tiles, c.tiles);
}

/* Tiles, which f.end puts where all.term finds them, and then all of them in order. */
template <class F, class A>
static void cuda_sixteen(int64_t tiles, const F &f, const A &all) {
    if (tiles <= CUDA_SIXTEENS) {
        GPU_LAUNCH((cuda_sixteen_few_kernel<F, A>), 1, GPU_BLOCK, CUDA_SIXTEENS * sizeof(double), f, all,
                   tiles);
        return;
    }
    GPU_LAUNCH((cuda_sixteen_kernel<F>), gpu_blocks(tiles, CUDA_SIXTEENS), GPU_BLOCK, 0, f, tiles);
    cuda_in_order(tiles, tiles, all);
}
