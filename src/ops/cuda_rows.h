/* Sums along rows in the CPU's order (ops/vector_math.h), so that the bits are the same on both devices: a
 * warp has a row, and each thread the lanes t, t + 32, t + 64 and t + 96 of VECTOR_LANES. So neighbours read
 * neighbours, and what is left of the tree when a thread has added its own are five exchanges.
 *
 * What bounds them: memory, since a number is added or multiplied a few times for its bytes. Rows that are
 * kept in shared memory are read once. Others are read again for the second sweep, from the caches where all
 * rows under way have room there. */
#pragma once

#include "ops/cuda.h"
#include "ops/vector_math.h"

static_assert((int)VECTOR_LANES == 4 * (int)GPU_WARP, "a thread for every four lanes");

GPU_INLINE int cuda_lane() { return (int)threadIdx.x % GPU_WARP; }

/* What lanes have, as a tree: in every thread of the warp. */
GPU_INLINE float cuda_warp_sum(float x) {
    for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

GPU_INLINE float cuda_warp_largest(float x) {
    for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, x, lanes);
        x = other > x ? other : x;
    }
    return x;
}

/* f(0) + ... + f(n-1), in every thread of the warp; thread t asks for t, t + 32 and so on. All of them have
 * read when it returns, so what was read may be written then. */
template <class F>
GPU_INLINE float cuda_row_sum(int64_t n, const F &f) {
    float own[4] = { 0, 0, 0, 0 };
    for (int64_t i = cuda_lane(); i < n; i += VECTOR_LANES)
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * GPU_WARP < n) own[k] += f(i + k * GPU_WARP);
    return cuda_warp_sum((own[0] + own[2]) + (own[1] + own[3]));
}

enum { CUDA_ROWS = GPU_BLOCK / GPU_WARP }; /* of a block */

template <class F>
__global__ void __launch_bounds__(GPU_BLOCK, 3) cuda_rows_kernel(F f, int64_t rows) {
    int64_t row = (int64_t)blockIdx.x * CUDA_ROWS + threadIdx.x / GPU_WARP;
    if (row < rows) f(row);
}

/* f(row) for all rows, by all threads of a warp together. */
template <class F>
static void cuda_rows(int64_t rows, const F &f) {
    if (rows > 0) GPU_LAUNCH((cuda_rows_kernel<F>), gpu_blocks(rows, CUDA_ROWS), GPU_BLOCK, 0, f, rows);
}

/* ---- rows that are read once ----
 * Up to this width a row is kept in shared memory while it is worked on, as floats. */

enum { CUDA_KEPT = 4096, CUDA_SHARED = 48 << 10 /* bytes that every GPU gives to a block unasked */ };

static inline int cuda_kept_rows(int64_t bytes_of_a_row, int64_t bytes_beside) {
    int64_t rows = (CUDA_SHARED - bytes_beside) / bytes_of_a_row;
    return rows < CUDA_ROWS ? (int)rows : CUDA_ROWS;
}

/* Two blocks at once leave 128 registers to a thread: left to itself nvcc spills for some generations. */
template <class F>
__global__ void __launch_bounds__(GPU_BLOCK, 2) cuda_rows_kept_kernel(F f, int64_t rows, int32_t floats) {
    GPU_SHARED(float, kept);
    int warp = (int)threadIdx.x / GPU_WARP;
    int64_t row = (int64_t)blockIdx.x * (blockDim.x / GPU_WARP) + warp;
    if (row < rows) f(row, kept + warp * floats);
}

/* f(row, kept) for all rows, by all threads of a warp together, with room for so many floats. */
template <class F>
static void cuda_rows_kept(int64_t rows, int64_t floats, const F &f) {
    int each = cuda_kept_rows(floats * (int64_t)sizeof(float), 0);
    if (rows > 0)
        GPU_LAUNCH((cuda_rows_kept_kernel<F>), gpu_blocks(rows, each), (unsigned)each * GPU_WARP,
                   (size_t)(each * floats) * sizeof(float), f, rows, (int32_t)floats);
}
