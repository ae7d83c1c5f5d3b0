/* The plain product for GPUs of every kind, with the bits of the CPU's (matmul_kernel.h): slices of
 * MATMUL_SLICE products from 0, each by one fused multiply-add, slice after slice onto what was before.
 * Operands and ends are types, so other ops make products of their own of it.
 *
 *   A, B   float get(line, depth): a line is a row of op(a), or a column of op(b). `along`: neighbouring
 *          depths are neighbours in memory, else neighbouring lines; threads are laid out accordingly.
 *   E      float before(row, column); void end(row, column, sum); and of four columns at once, the first a
 *          multiple of four, before4 and end4, where `fours` says that all is aligned to that
 *
 * A block makes 64 x 64 sums, a thread 4 x 4 of them; 16 depths at a time stand in shared memory. */
#pragma once

#include "ops/cuda.h"

enum { MATMUL_TILE = 64, MATMUL_DEPTHS = 16, MATMUL_EACH = 4, MATMUL_SLICE = 256 };

struct matmul_extent {
    int64_t rows, columns, depth;
};

/* A matrix in memory. */
struct matmul_matrix {
    cuda_span x;
    int64_t by_line, by_depth; /* distances of elements */
    bool along;
    int64_t first; /* element */
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const {
        return x.get(first + line * by_line + depth * by_depth);
    }
};

static inline matmul_matrix matmul_matrix_of(const op_arg *x, bool lines_are_columns) {
    int64_t wide = shape_last(&x->shape);
    if (lines_are_columns) return { cuda_span_of(x), 1, wide, false, 0 };
    return { cuda_span_of(x), wide, 1, true, 0 };
}

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

template <class O>
GPU_INLINE void matmul_load(float *to, const O &o, int64_t line, int64_t lines, int64_t depth,
                            int64_t depths) {
#pragma unroll
    for (int i = (int)threadIdx.x; i < MATMUL_TILE * MATMUL_DEPTHS; i += GPU_BLOCK) {
        int l = o.along ? i / MATMUL_DEPTHS : i % MATMUL_TILE;
        int d = o.along ? i % MATMUL_DEPTHS : i / MATMUL_TILE;
        bool inside = line + l < lines && depth + d < depths;
        to[d * MATMUL_TILE + l] = inside ? o.get(line + l, depth + d) : 0.0f;
    }
}

/* The sums from this row and column on, by a whole block. */
template <class A, class B, class E>
GPU_INLINE void matmul_block(const A &a, const B &b, const E &e, const matmul_extent &n, int64_t row,
                             int64_t column) {
    GPU_SHARED(float, shared);
    float *of_a = shared, *of_b = shared + MATMUL_DEPTHS * MATMUL_TILE; /* (depth, line) */
    int r = (int)threadIdx.x / 16 * MATMUL_EACH, k = (int)threadIdx.x % 16 * MATMUL_EACH;
    float sum[MATMUL_EACH][MATMUL_EACH], slice[MATMUL_EACH][MATMUL_EACH];
    const bool fours = e.fours && column + k + 4 <= n.columns;
#pragma unroll
    for (int i = 0; i < MATMUL_EACH; i++) {
#pragma unroll
        for (int j = 0; j < MATMUL_EACH; j++) {
            bool inside = !fours && row + r + i < n.rows && column + k + j < n.columns;
            sum[i][j] = inside ? e.before(row + r + i, column + k + j) : 0.0f;
            slice[i][j] = 0;
        }
        if (fours && row + r + i < n.rows) e.before4(row + r + i, column + k, sum[i]);
    }
    for (int64_t d = 0; d < n.depth; d += MATMUL_DEPTHS) {
        matmul_load(of_a, a, row, n.rows, d, n.depth);
        matmul_load(of_b, b, column, n.columns, d, n.depth);
        __syncthreads();
        int here = n.depth - d < MATMUL_DEPTHS ? (int)(n.depth - d) : MATMUL_DEPTHS;
        for (int q = 0; q < here; q++) {
            const float *x = of_a + q * MATMUL_TILE + r, *y = of_b + q * MATMUL_TILE + k;
#pragma unroll
            for (int i = 0; i < MATMUL_EACH; i++)
#pragma unroll
                for (int j = 0; j < MATMUL_EACH; j++) slice[i][j] = fmaf(x[i], y[j], slice[i][j]);
        }
        bool ends = (d + MATMUL_DEPTHS) % MATMUL_SLICE == 0 || d + MATMUL_DEPTHS >= n.depth;
#pragma unroll
        for (int i = 0; i < MATMUL_EACH; i++)
#pragma unroll
            for (int j = 0; j < MATMUL_EACH; j++)
                if (ends) sum[i][j] = sum[i][j] + slice[i][j], slice[i][j] = 0;
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < MATMUL_EACH; i++) {
#pragma unroll
        for (int j = 0; j < MATMUL_EACH; j++)
            if (!fours && row + r + i < n.rows && column + k + j < n.columns)
                e.end(row + r + i, column + k + j, sum[i][j]);
        if (fours && row + r + i < n.rows) e.end4(row + r + i, column + k, sum[i]);
    }
}

template <class A, class B, class E>
__global__ void __launch_bounds__(GPU_BLOCK, 2) matmul_plain_kernel(A a, B b, E e, matmul_extent n) {
    matmul_block(a, b, e, n, (int64_t)blockIdx.y * MATMUL_TILE, (int64_t)blockIdx.x * MATMUL_TILE);
}

static_assert(MATMUL_EACH == 4, "a thread's columns are read and written at once");
enum { MATMUL_SHARED = 2 * MATMUL_DEPTHS * MATMUL_TILE * (int)sizeof(float) };

template <class A, class B, class E>
static void matmul_plain(const A &a, const B &b, const E &e, const matmul_extent &n) {
    if (n.rows > 0 && n.columns > 0)
        GPU_LAUNCH((matmul_plain_kernel<A, B, E>),
                   dim3(gpu_blocks(n.columns, MATMUL_TILE), gpu_blocks(n.rows, MATMUL_TILE)), GPU_BLOCK,
                   MATMUL_SHARED, a, b, e, n);
}
