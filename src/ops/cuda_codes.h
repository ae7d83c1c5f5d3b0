/* Scales of codes of 8 bits (ops/codes.h): the largest of a run by a warp, and those of columns, some rows at
 * a time. In any order the same number. */
#pragma once

#include "ops/cuda_whole.h"

extern "C" {
#include "ops/codes.h"
}

/* The largest codes_size of n neighbours, in every thread of the warp. */
GPU_INLINE int32_t cuda_codes_largest(const cuda_span &x, int64_t first, int64_t n) {
    int32_t largest = 0;
    for (int64_t i = cuda_lane(); i < n; i += GPU_WARP) {
        int32_t size = codes_size(x.get(first + i));
        largest = size > largest ? size : largest;
    }
    return cuda_warp_most(largest);
}

/* parts (part, column): what CUDA_CODES_PART rows have. */
enum { CUDA_CODES_PART = 256 };
struct cuda_codes_parts {
    cuda_span x;
    int32_t *parts;
    int64_t rows, columns;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, columns); /* part, column */
        int64_t first = at.row * CUDA_CODES_PART, last = first + CUDA_CODES_PART;
        int32_t largest = 0;
#pragma unroll 4
        for (int64_t row = first; row < (last < rows ? last : rows); row++) {
            int32_t size = codes_size(x.get(row * columns + at.column));
            largest = size > largest ? size : largest;
        }
        parts[i] = largest;
    }
};

static inline int64_t cuda_codes_parts_of(int64_t rows) {
    return (rows + CUDA_CODES_PART - 1) / CUDA_CODES_PART;
}

/* The scale of a column, from its parts. */
GPU_INLINE float cuda_codes_column(const cuda_codes_parts &of, int64_t count, int64_t column) {
    int32_t largest = 0;
    for (int64_t p = 0; p < count; p++) {
        int32_t size = of.parts[p * of.columns + column];
        largest = size > largest ? size : largest;
    }
    return codes_scale(largest);
}
