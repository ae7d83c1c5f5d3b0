/* Products of few rows on GPUs, as of serving: what they take is the bytes of b, so memory
 * bounds them. A block has few columns, so
 * that many blocks read at the same time, and reads as much of them as shared memory holds before it adds
 * anything; a thread then makes one slice of one sum. Slices are added in their order, with the bits of
 * matmul_tile_cuda.h, whose operands and ends these are. */
#pragma once

#include "ops/matmul/matmul_tile_cuda.h"

enum {
    MATMUL_FEW = 8, /* rows, and columns of a block */
    MATMUL_FEW_SLICES = 2,
    MATMUL_FEW_DEPTHS = MATMUL_FEW_SLICES * MATMUL_SLICE, /* at a time in shared memory */
    MATMUL_FEW_PITCH = MATMUL_FEW_DEPTHS + 4,             /* lines one after the other begin at other banks */
    MATMUL_FEW_SUMS = MATMUL_FEW * MATMUL_FEW,
    MATMUL_FEW_THREADS = MATMUL_FEW_SLICES * MATMUL_FEW_SUMS,
    MATMUL_FEW_SHARED =
        (2 * MATMUL_FEW * MATMUL_FEW_PITCH + MATMUL_FEW_THREADS) * (int)sizeof(float) /* 33.5 KB */
};

/* Of an operand, to (line, depth): the lines from `line` on that are there, and so many depths. A thread has
 * some loads under way at once. */
template <class O>
GPU_INLINE void matmul_few_put(float *to, const O &o, int64_t line, int lines, int64_t depth, int depths) {
    enum { AT_ONCE = 8 };
    int all = o.along ? lines * MATMUL_FEW_DEPTHS : MATMUL_FEW * MATMUL_FEW_DEPTHS;
    for (int i = (int)threadIdx.x; i < all; i += AT_ONCE * MATMUL_FEW_THREADS) {
        float x[AT_ONCE];
        int place[AT_ONCE]; /* -1: outside */
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int at = i + k * MATMUL_FEW_THREADS;
            int l = o.along ? at / MATMUL_FEW_DEPTHS : at % MATMUL_FEW;
            int d = o.along ? at % MATMUL_FEW_DEPTHS : at / MATMUL_FEW;
            place[k] = l < lines && d < depths ? l * MATMUL_FEW_PITCH + d : -1;
            x[k] = o.get(o.of_line(line + (l < lines ? l : 0)), o.of_depth(depth + (d < depths ? d : 0)));
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (place[k] >= 0) to[place[k]] = x[k];
    }
}

/* By fours, none of which is partly outside. */
GPU_INLINE void matmul_few_put4(float *to, const matmul_matrix &o, int64_t line, int lines, int64_t depth,
                                int depths) {
    enum { AT_ONCE = 4, DEEP = MATMUL_FEW_DEPTHS / 4, WIDE = MATMUL_FEW / 4 };
    int all = o.along ? lines * DEEP : WIDE * MATMUL_FEW_DEPTHS;
    for (int i = (int)threadIdx.x; i < all; i += AT_ONCE * MATMUL_FEW_THREADS) {
        float x[AT_ONCE * 4];
        int place[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int at = i + k * MATMUL_FEW_THREADS;
            int l = o.along ? at / DEEP : at % WIDE * 4, d = o.along ? at % DEEP * 4 : at / WIDE;
            place[k] = l < lines && d < depths ? l * MATMUL_FEW_PITCH + d : -1;
            if (place[k] >= 0) o.take4(o.address(line + l, depth + d), x + 4 * k);
        }
        o.template widen<AT_ONCE * 4>(x);
#pragma unroll
        for (int k = 0; k < AT_ONCE * 4; k++)
            if (place[k / 4] >= 0) to[place[k / 4] + k % 4 * (o.along ? 1 : MATMUL_FEW_PITCH)] = x[k];
    }
}
GPU_INLINE void matmul_few_put(float *to, const matmul_matrix &o, int64_t line, int lines, int64_t depth,
                               int depths) {
    if (o.fours)
        matmul_few_put4(to, o, line, lines, depth, depths);
    else
        matmul_few_put<matmul_matrix>(to, o, line, lines, depth, depths);
}

GPU_INLINE float matmul_few_slice(const float *a, const float *b, int depths) {
    float slice = 0;
    int d = 0;
#pragma unroll 4
    for (; d + 4 <= depths; d += 4) {
        float x[4], y[4];
        gpu_get4(a + d, x), gpu_get4(b + d, y);
#pragma unroll
        for (int k = 0; k < 4; k++) slice = fmaf(x[k], y[k], slice);
    }
    for (; d < depths; d++) slice = fmaf(a[d], b[d], slice);
    return slice;
}

template <class A, class B, class E>
__global__ void __launch_bounds__(MATMUL_FEW_THREADS, 4) matmul_few_kernel(A a, B b, E e, matmul_extent n) {
    GPU_SHARED(float, of_a);
    float *of_b = of_a + MATMUL_FEW * MATMUL_FEW_PITCH, *slices = of_b + MATMUL_FEW * MATMUL_FEW_PITCH;
    int t = (int)threadIdx.x, column = t % MATMUL_FEW, row = t / MATMUL_FEW % MATMUL_FEW;
    int from = t / MATMUL_FEW_SUMS * MATMUL_SLICE; /* of the thread's slice, of those in shared memory */
    int64_t first = (int64_t)blockIdx.x * MATMUL_FEW;
    int columns = n.columns - first < MATMUL_FEW ? (int)(n.columns - first) : MATMUL_FEW;
    bool inside = row < n.rows && column < columns, adds = inside && from == 0;
    float sum = adds ? e.before(row, first + column) : 0.0f;
    for (int64_t d = 0; d < n.depth; d += MATMUL_FEW_DEPTHS) {
        int here = n.depth - d < MATMUL_FEW_DEPTHS ? (int)(n.depth - d) : MATMUL_FEW_DEPTHS;
        matmul_few_put(of_a, a, 0, (int)n.rows, d, here);
        matmul_few_put(of_b, b, first, columns, d, here);
        __syncthreads();
        int depths = here - from < MATMUL_SLICE ? here - from : MATMUL_SLICE;
        if (inside)
            slices[t] = matmul_few_slice(of_a + row * MATMUL_FEW_PITCH + from,
                                         of_b + column * MATMUL_FEW_PITCH + from, depths);
        __syncthreads(); /* and nobody reads a and b any more */
        for (int s = 0; adds && s * MATMUL_SLICE < here; s++) sum += slices[s * MATMUL_FEW_SUMS + t];
    }
    if (adds) e.end(row, first + column, sum);
}

/* 1 to MATMUL_FEW rows. */
template <class A, class B, class E>
static void matmul_few(const A &a, const B &b, const E &e, const matmul_extent &n) {
    GPU_LAUNCH((matmul_few_kernel<A, B, E>), gpu_blocks(n.columns, MATMUL_FEW), MATMUL_FEW_THREADS,
               MATMUL_FEW_SHARED, a, b, e, n);
}
