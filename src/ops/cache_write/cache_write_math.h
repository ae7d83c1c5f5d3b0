/* Where a number lies in a paged cache, for the kernels of every kind of device. */
#pragma once

#include "base/vector.h"
#include "ops/cache_write/cache_write.h"

/* Number d of head h at place `at` of block `block`. */
VECTOR_INLINE int64_t cache_place(const cache_write_attributes *a, int64_t block, int64_t h, int64_t at,
                                  int64_t d) {
    int64_t head = (block * a->heads + h) * CACHE_BLOCK * a->size;
    return head + (a->keys ? d * CACHE_BLOCK + at : at * a->size + d);
}

/* The scale of that head and place. */
VECTOR_INLINE int64_t cache_scale_place(int64_t heads, int64_t block, int64_t h, int64_t at) {
    return (block * heads + h) * CACHE_BLOCK + at;
}
