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

/* Positions are summed up by segments from position 0 on. What a row sees of a segment has a maximum of its
 * own; the exponentials go by lanes of VECTOR_LANES from the segment's beginning on, the values position by
 * position. Segments are then added one after the other (paged_joined), by whomever they were computed. */
enum { PAGED_SEGMENT = 4 * VECTOR_LANES };

/* What of segment s a row sees; last < first: nothing. */
VECTOR_INLINE paged_span paged_part(paged_span seen, int64_t s) {
    int64_t first = s * PAGED_SEGMENT, last = first + PAGED_SEGMENT - 1;
    paged_span part = { seen.first > first ? seen.first : first, seen.last < last ? seen.last : last };
    return part;
}

/* What a sum of exponentials less their maximum and a sum of values become where two are added. */
typedef struct {
    float top, total, before, more; /* maximum, sum; factors of the two sums of values */
} paged_joint;

/* To (-infinity, 0) comes the first part as it is. */
VECTOR_INLINE paged_joint paged_joined(float top, float total, float other_top, float other_total) {
    paged_joint j;
    j.top = other_top > top ? other_top : top;
    j.before = vector_exp(top - j.top), j.more = vector_exp(other_top - j.top);
    j.total = vector_fused(other_total, j.more, total * j.before);
    return j;
}

/* Which of a head's `distances` biases the score of position p gets. */
VECTOR_INLINE int64_t paged_distance(int64_t p, int64_t place, int64_t here, int64_t distances) {
    int64_t at = p - place + here;
    return at < 0 ? 0 : at < distances ? at : distances - 1;
}

/* The block of the cache that holds positions [at, at + CACHE_BLOCK), at a multiple of it, of the row's text.
 */
VECTOR_INLINE int64_t paged_block(const paged_sight *s, int64_t row, int64_t at) {
    int64_t block = s->table[s->text[row] * s->columns + at / CACHE_BLOCK];
    return block >= 0 && block < s->blocks ? block : 0;
}

VECTOR_INLINE float paged_capped(float score, float cap) {
    return cap > 0 ? softcap_value_f32(score, cap) : score;
}
