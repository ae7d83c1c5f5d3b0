/* Sums along rows in the CPU's order (ops/vector_math.h), so that the bits are the same on both devices: a
 * warp has a row, and each thread four of the VECTOR_LANES lanes. */
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

/* f(0) + ... + f(n-1), in every thread of the warp. All of them have read when it returns, so what was read
 * may be written then. */
template <class F>
GPU_INLINE float cuda_row_sum(int64_t n, const F &f) {
    float own[4] = { 0, 0, 0, 0 };
    for (int64_t i = 4 * cuda_lane(); i < n; i += VECTOR_LANES)
        for (int k = 0; k < 4; k++)
            if (i + k < n) own[k] += f(i + k);
    for (int k = 0; k < 4; k++) own[k] = cuda_warp_sum(own[k]);
    __syncwarp();
    return (own[0] + own[2]) + (own[1] + own[3]);
}

enum { CUDA_ROWS = GPU_BLOCK / GPU_WARP }; /* of a block */

template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_rows_kernel(F f, int64_t rows) {
    int64_t row = (int64_t)blockIdx.x * CUDA_ROWS + threadIdx.x / GPU_WARP;
    if (row < rows) f(row);
}

/* f(row) for all rows, by all threads of a warp together. */
template <class F>
static void cuda_rows(int64_t rows, const F &f) {
    if (rows > 0) GPU_LAUNCH((cuda_rows_kernel<F>), gpu_blocks(rows, CUDA_ROWS), GPU_BLOCK, 0, f, rows);
}
