/* Which positions a row sees, and where they lie: the rules of attention_paged.h, for the kernels of every
 * kind of device. */
#pragma once

#include "ops/attention_paged/attention_paged.h"
#include "ops/cache_write/cache_write_math.h"
#include "ops/softcap/softcap_math.h"
#include "ops/vector_math.h"

typedef struct {
    const int32_t *table, *text, *position;
    int64_t texts, columns, blocks; /* of the table; of the cache */
    int64_t window;
} paged_sight;

/* Positions [first, last] of a text; last < 0: none. */
typedef struct {
    int64_t first, last;
} paged_span;

VECTOR_INLINE paged_span paged_seen(const paged_sight *s, int64_t row) {
    paged_span seen = { 0, s->position[row] };
    if (s->text[row] < 0 || s->text[row] >= s->texts || seen.last >= s->columns * CACHE_BLOCK) seen.last = -1;
    if (s->window && seen.last - s->window + 1 > 0) seen.first = seen.last - s->window + 1;
    return seen;
}

/* Sums over positions go by lanes of VECTOR_LANES from a multiple of that on. */
VECTOR_INLINE int64_t paged_base(int64_t first) { return first / VECTOR_LANES * VECTOR_LANES; }

/* The block of the cache that holds positions [at, at + CACHE_BLOCK), at a multiple of it, of the row's text.
 */
VECTOR_INLINE int64_t paged_block(const paged_sight *s, int64_t row, int64_t at) {
    int64_t block = s->table[s->text[row] * s->columns + at / CACHE_BLOCK];
    return block >= 0 && block < s->blocks ? block : 0;
}

VECTOR_INLINE float paged_capped(float score, float cap) {
    return cap > 0 ? softcap_value_f32(score, cap) : score;
}
