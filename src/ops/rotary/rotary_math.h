/* How fast each pair turns: radians per position. */
#pragma once

#include <math.h>

#include "ops/rotary/rotary.h"
#include "ops/wide_math.h"

/* The pair that turns `times` times in the original positions, between pairs. */
VECTOR_INLINE double rotary_pair(const rotary_angles_attributes *a, double times) {
    return (double)a->turned * wide_log(a->original / (times * 2 * 3.14159265358979323846)) /
           (2 * wide_log(a->theta));
}

/* How much of a pair's speed stays. */
VECTOR_INLINE double rotary_yarn_share(const rotary_angles_attributes *a, int64_t pair) {
    double first = rotary_pair(a, a->high), last = rotary_pair(a, a->low), most = (double)a->turned - 1;
    if (!a->unrounded) first = floor(first), last = ceil(last);
    first = fmax(first, 0.0), last = fmin(last, most);
    double ramp = ((double)pair - first) / (first == last ? 0.001 : last - first);
    return 1 - fmin(fmax(ramp, 0.0), 1.0);
}

VECTOR_INLINE double rotary_speed(const rotary_angles_attributes *a, int64_t pair) {
    double speed = wide_power(a->theta, -2.0 * (double)pair / (double)a->turned);
    if (a->stretch == ROTARY_LINEAR) return speed / a->factor;
    if (a->stretch == ROTARY_YARN) {
        double share = rotary_yarn_share(a, pair);
        return (1 - share) * speed / a->factor + share * speed;
    }
    if (a->stretch != ROTARY_LLAMA3) return speed;
    double wave = 2 * 3.14159265358979323846 / speed;
    if (wave < a->original / a->high) return speed;
    if (wave > a->original / a->low) return speed / a->factor;
    double share = (a->original / wave - a->low) / (a->high - a->low);
    return (1 - share) * speed / a->factor + share * speed;
}

/* In a call whose last position is the one before `positions`. */
VECTOR_INLINE double rotary_speed_of(const rotary_angles_attributes *a, int64_t pair, int64_t positions) {
    double speed = rotary_speed(a, pair);
    if (a->stretch != ROTARY_LONG) return speed;
    return speed / (double)((double)positions > a->original ? a->far[pair] : a->near[pair]);
}

/* Where rows stand: of one offset row t at offset + t, all of one call; of an offset for each, each at its
 * own. */
typedef struct {
    const int32_t *offset; /* NULL: 0 */
    int64_t offsets, rows;
} rotary_places;

VECTOR_INLINE int64_t rotary_place(const rotary_places *p, int64_t t) {
    if (p->offsets > 1) return p->offset[t];
    return (p->offset ? *p->offset : 0) + t;
}

/* The positions up to the last one of the row's call. */
VECTOR_INLINE int64_t rotary_length(const rotary_places *p, int64_t t) {
    return p->offsets > 1 ? p->offset[t] + 1 : rotary_place(p, 0) + p->rows;
}
