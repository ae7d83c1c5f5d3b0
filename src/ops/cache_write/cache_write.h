/* Keys or values of new tokens, into their places in a paged cache.
 *
 * A block of the cache has room for CACHE_BLOCK positions of one text; slot s is place s % CACHE_BLOCK of
 * block s / CACHE_BLOCK. Values lie as rows, (blocks, G, CACHE_BLOCK, D). Keys lie across, (blocks, G, D,
 * CACHE_BLOCK): CACHE_BLOCK neighbours are one number of as many keys, so a vector gives as many scores.
 *
 * Row i of x goes to slot[i]; of its columns those of G heads of D numbers, from `column` on, so one packed
 * projection q | k | v feeds two caches. A slot outside of the cache: the row is ignored. No two rows of a
 * call have the same slot within it. Numbers are rounded once to the cache's type. A cache of codes (i8) has
 * a scale for each place and head (ops/codes.h), (blocks, G, CACHE_BLOCK) f32, and codes are the nearest. Not
 * differentiable. Paper: Kwon et al., "PagedAttention", arXiv:2309.06180. */
#pragma once

#include "ir/op.h"

enum { CACHE_BLOCK = 16, CACHE_MOST_SIZE = 1024 /* D */ };

typedef struct {
    int32_t column, heads, size; /* the first of x; G; D */
    int32_t keys;                /* 1: they lie across */
} cache_write_attributes;

/* cache, x (B,T,W), slot (N = B T) i32, scales? -> cache, scales?, which live in their inputs */
extern const op_def op_cache_write;
extern const op_kernel cache_write_cpu[];
extern const op_kernel cache_write_cuda[];

typedef struct {
    tensor_id cache, scales; /* 0: none */
} cache_tensors;

cache_tensors cache_write_apply(graph *g, const cache_tensors *to, tensor_id x, tensor_id slot,
                                const cache_write_attributes *attributes);

/* The shape of a cache of so many blocks, and of its scales. */
shape cache_write_shape(const cache_write_attributes *a, int64_t blocks);
shape cache_write_scales_shape(const cache_write_attributes *a, int64_t blocks);

/* For infer of what reads a cache: STATUS_INVALID with a sentence unless `cache` holds keys or values of G
 * heads of D numbers, with `scales` (NULL: none) if and only if it holds codes. */
status cache_check(const tensor *cache, const tensor *scales, const cache_write_attributes *a);
