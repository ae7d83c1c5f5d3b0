/* Whole numbers of a warp's lanes taken together, in every thread of the warp: exact in any order. */
#pragma once

#include "ops/cuda_rows.h"

GPU_INLINE int32_t cuda_warp_count(int32_t x) {
    for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

GPU_INLINE int32_t cuda_warp_most(int32_t x) {
    for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) {
        int32_t other = __shfl_xor_sync(0xffffffffu, x, lanes);
        x = other > x ? other : x;
    }
    return x;
}
