/* The plain product for GPUs of every kind: by tiles (matmul_tile_cuda.h) or for few rows
 * (matmul_few_cuda.h), its ends, and which of them is taken; what bounds them stands in theirs. Operands and
 * ends are types, so other ops make products of their own of it. */
#pragma once

#include "ops/matmul/matmul_few_cuda.h"
#include "ops/matmul/matmul_tile_cuda.h"

/* ---- four columns at once ---- */

/* Rows of so many numbers: do four neighbours begin at a multiple of four numbers in all of them? What is
 * absent is. */
template <class... S>
static inline bool matmul_fours(int64_t columns, const S &...spans) {
    bool all = columns % 4 == 0;
    for (bool aligned : { (!spans.data || cuda_fours(spans))... }) all = all && aligned;
    return all;
}

GPU_INLINE void matmul_before4(const cuda_span &accumulator, int64_t i, float x[4]) {
    x[0] = x[1] = x[2] = x[3] = 0;
    if (accumulator.data) accumulator.get4(i, x);
}

GPU_INLINE void matmul_add4(const cuda_span &to_add, int64_t i, float x[4]) {
    float more[4];
    if (!to_add.data) return;
    to_add.get4(i, more);
#pragma unroll
    for (int k = 0; k < 4; k++) x[k] += more[k];
}

/* The end of a plain product. */
struct matmul_end {
    cuda_span bias, residual, accumulator, y; /* the first three may be absent */
    int64_t columns;
    bool fours;

    __device__ __forceinline__ float before(int64_t row, int64_t column) const {
        return accumulator.data ? accumulator.get(row * columns + column) : 0;
    }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        if (bias.data) sum += bias.get(column);
        if (residual.data) sum += residual.get(row * columns + column);
        y.set(row * columns + column, sum);
    }
    __device__ __forceinline__ void before4(int64_t row, int64_t column, float x[4]) const {
        matmul_before4(accumulator, row * columns + column, x);
    }
    __device__ __forceinline__ void end4(int64_t row, int64_t column, float x[4]) const {
        matmul_add4(bias, column, x);
        matmul_add4(residual, row * columns + column, x);
        y.set4(row * columns + column, x);
    }
};

static inline matmul_end matmul_end_of(const cuda_span &bias, const cuda_span &residual,
                                       const cuda_span &accumulator, const cuda_span &y, int64_t columns) {
    return { bias, residual, accumulator, y, columns, matmul_fours(columns, bias, residual, accumulator, y) };
}

/* ---- launches ---- */

/* Blocks are counted down in bands of so many tiles, then across: those that run at the same time are near a
 * square, and share what they read in the second cache. */
enum { MATMUL_BAND = 16 };

/* Before 8.0 shared memory ends before registers do. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define MATMUL_BLOCKS(T) 1
#else
#define MATMUL_BLOCKS(T) T::BLOCKS
#endif

template <class T, class A, class B, class E>
__global__ void __launch_bounds__(T::THREADS, MATMUL_BLOCKS(T))
    matmul_plain_kernel(A a, B b, E e, matmul_extent n, unsigned high, unsigned wide) {
    unsigned band = MATMUL_BAND, first = blockIdx.x / (band * wide) * band, in = blockIdx.x - first * wide;
    if (band > high - first) band = high - first;
    matmul_block<T>(a, b, e, n, (int64_t)(first + in % band) * T::ROWS, (int64_t)(in / band) * T::COLUMNS);
}

template <class T, class A, class B, class E>
static void matmul_launch(const A &a, const B &b, const E &e, const matmul_extent &n) {
    unsigned high = gpu_blocks(n.rows, T::ROWS), wide = gpu_blocks(n.columns, T::COLUMNS);
    GPU_LAUNCH((matmul_plain_kernel<T, A, B, E>), dim3(high * wide), T::THREADS, T::SHARED, a, b, e, n, high,
               wide);
}

/* How long a product takes in tiles of T, in some unit: of the multiprocessor that has the most of them. A
 * sum costs `work`, more in smaller tiles, whose numbers are read more often from shared memory; and as many
 * blocks as run at the same time wait for memory and for each other as long as `idle` blocks multiply.
 * Both are reckoned from what a tile reads, and not measured. */
template <class T>
static inline uint64_t matmul_cost(const matmul_extent &n, const gpu_size &g, unsigned work, unsigned idle) {
    uint64_t blocks = (uint64_t)gpu_blocks(n.rows, T::ROWS) * gpu_blocks(n.columns, T::COLUMNS);
    uint64_t most = (blocks + g.multiprocessors - 1) / g.multiprocessors, beside = g.shared / T::SHARED;
    if (beside < 1) beside = 1;
    if (beside > T::BLOCKS) beside = T::BLOCKS;
    return (most * 10 + (most + beside - 1) / beside * idle) * T::ROWS * T::COLUMNS * work;
}

typedef enum { MATMUL_SMALL, MATMUL_MEDIUM, MATMUL_LARGE } matmul_choice;
static inline matmul_choice matmul_choose(const matmul_extent &n, const gpu_size &g, matmul_choice most) {
    uint64_t small = matmul_cost<matmul_small>(n, g, 19, 20),
             medium = matmul_cost<matmul_medium>(n, g, 12, 8), large = matmul_cost<matmul_large>(n, g, 10, 6);
    if (most == MATMUL_LARGE && large <= medium && large <= small) return MATMUL_LARGE;
    return medium <= small ? MATMUL_MEDIUM : MATMUL_SMALL;
}

/* Of matrices in memory. */
template <class E>
static void matmul_plain(const matmul_matrix &a, const matmul_matrix &b, const E &e, const matmul_extent &n) {
    if (n.rows <= 0 || n.columns <= 0) return;
    if (n.rows <= MATMUL_FEW) {
        matmul_few(a, b, e, n);
        return;
    }
    switch (matmul_choose(n, gpu_size_here(), MATMUL_LARGE)) {
    case MATMUL_LARGE: matmul_launch<matmul_large>(a, b, e, n); break;
    case MATMUL_MEDIUM: matmul_launch<matmul_medium>(a, b, e, n); break;
    case MATMUL_SMALL: matmul_launch<matmul_small>(a, b, e, n); break;
    }
}

/* Of others, whose numbers take registers to find. */
template <class A, class B, class E>
static void matmul_gathered(const A &a, const B &b, const E &e, const matmul_extent &n) {
    if (n.rows <= 0 || n.columns <= 0) return;
    if (matmul_choose(n, gpu_size_here(), MATMUL_MEDIUM) == MATMUL_MEDIUM)
        matmul_launch<matmul_tile<64, 64, 8, 4, 8, 3>>(a, b, e, n);
    else
        matmul_launch<matmul_tile<32, 32, 4, 4, 16, 4>>(a, b, e, n);
}
