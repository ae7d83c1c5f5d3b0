/* Windows along one side of an image. */
#pragma once

#include "base/vector.h"
#include "ops/mean_pool/mean_pool.h"

typedef struct {
    int64_t begin, end;
} mean_pool_span;

/* The places of the image, of `size` in all, that window i has. */
VECTOR_INLINE mean_pool_span mean_pool_window(mean_pool_attributes a, int64_t i, int64_t size) {
    int64_t begin = i * a.stride - a.padding, end = begin + a.size;
    mean_pool_span s = { begin < 0 ? 0 : begin, end > size ? size : end };
    return s;
}

/* The windows, of `count` in all, that place p is in. */
VECTOR_INLINE mean_pool_span mean_pool_windows(mean_pool_attributes a, int64_t p, int64_t count) {
    int64_t first = p + a.padding - a.size + 1, last = (p + a.padding) / a.stride;
    mean_pool_span s = { first > 0 ? (first + a.stride - 1) / a.stride : 0, last < count ? last + 1 : count };
    return s;
}

VECTOR_INLINE int64_t mean_pool_span_size(mean_pool_span s) { return s.end - s.begin; }
