/* Which keys a query sees, and what dropout does to the probability of a pair: the rules of attention.h, for
 * the kernels of every kind of device. The numbers behind the pointers are read where a kernel runs, for
 * there they lie. */
#pragma once

#include <math.h>

#include "base/philox.h"
#include "ops/attention/attention.h"

typedef struct {
    int64_t queries, keys, window;
    const int32_t *lengths, *segments, *offset; /* NULL where absent */
    bool causal;
} attention_sight;

VECTOR_INLINE int64_t attention_offset(const attention_sight *s) { return s->offset ? *s->offset : 0; }

/* Keys [first, last) hold all that any of the queries t .. t+count-1 of sample b sees; empty: first >= last.
 */
VECTOR_INLINE void attention_sight_keys(const attention_sight *s, int64_t b, int64_t t, int64_t count,
                                        int64_t *first, int64_t *last) {
    int64_t length = s->lengths ? s->lengths[b] : s->keys, oldest = attention_offset(s) + t;
    int64_t low = 0, high = length < s->keys ? length : s->keys, newest = oldest + count - 1;
    if (s->causal && newest + 1 < high) high = newest + 1;
    if (s->window && newest + s->window < high) high = newest + s->window;
    if (s->window && oldest - s->window + 1 > low) low = oldest - s->window + 1;
    *first = low;
    *last = high;
}

/* Queries from t + *from up to t + *to see key `key` as far as their places and the window go; either may lie
 * outside of the queries that there are. `key` is below the sample's length. */
VECTOR_INLINE void attention_sight_queries(const attention_sight *s, int64_t t, int64_t count, int64_t key,
                                           int64_t *from, int64_t *to) {
    int64_t distance = key - attention_offset(s) - t; /* of the key from the first query */
    *from = 0, *to = count;
    if (s->causal) *from = distance;
    if (s->window && !s->causal) *from = distance - s->window + 1;
    if (s->window) *to = distance + s->window;
}

VECTOR_INLINE bool attention_sight_sees(const attention_sight *s, int64_t b, int64_t t, int64_t key) {
    int64_t first, last;
    attention_sight_keys(s, b, t, 1, &first, &last);
    if (key < first || key >= last) return false;
    return !s->segments || s->segments[b * s->queries + t] == s->segments[b * s->queries + key];
}

/* ---- tiles ---- */

enum { ATTENTION_TILE = 64 };

/* Some queries of a head against some keys, which begin at a multiple of ATTENTION_TILE whatever a query
 * sees: so the order of every sum depends on the place of a key only. */
typedef struct {
    int64_t b, h, g; /* sample, head, head of keys and values */
    int64_t t, s;    /* first query and first key */
    int queries, keys;
} attention_tile;

/* Steps through the tiles of keys that the queries of `tile` see: sets s and keys for the first one from key
 * `from` on, or returns false when there is none. */
VECTOR_INLINE bool attention_sight_next(const attention_sight *s, attention_tile *tile, int64_t from) {
    int64_t first, last;
    attention_sight_keys(s, tile->b, tile->t, tile->queries, &first, &last);
    first = first / ATTENTION_TILE * ATTENTION_TILE;
    if (from > first) first = from;
    if (first >= last) return false;
    tile->s = first;
    tile->keys = last - first < ATTENTION_TILE ? (int)(last - first) : ATTENTION_TILE;
    return true;
}

/* ---- softmax ---- */

/* A query that has seen nothing yet has a maximum of minus infinity; 0 stands in for it, and its sum stays 0.
 */
VECTOR_INLINE float attention_reached(float top) { return top == -INFINITY ? 0.0f : top; }

/* What exponentials, or the values' sum, are multiplied by at the end. */
VECTOR_INLINE float attention_share(float sum) { return sum > 0 ? 1.0f / sum : 0; }

/* ---- dropout ---- */

/* The element of its sample that the pair of query t and key `key` of head h is. */
VECTOR_INLINE uint64_t attention_pair(const attention_sight *s, int64_t h, int64_t t, int64_t key) {
    return (uint64_t)((h * s->queries + t) * s->keys + key);
}

/* What the probability is multiplied by, from the word of the element. */
VECTOR_INLINE float attention_keeps(uint32_t word, float dropout) {
    return philox_uniform(word) >= dropout ? 1.0f / (1.0f - dropout) : 0.0f;
}
