/* How the scale of gradient_scale.h goes on. */
#pragma once

#include "base/vector.h"
#include "ops/gradient_scale/gradient_scale.h"

VECTOR_INLINE double gradient_scale_value(double state) {
    return state > 0 ? state : (double)GRADIENT_SCALE_FIRST;
}

typedef struct {
    double scale;
    int32_t good; /* steps since it changed */
} gradient_scale_next;

VECTOR_INLINE gradient_scale_next gradient_scale_go_on(double state, int32_t good, bool ok,
                                                       int32_t interval) {
    gradient_scale_next next = { gradient_scale_value(state), good + 1 };
    const double least = 1, most = 1 << 24; /* far from where a product of f32 would overflow or vanish */
    bool grows = ok && next.good >= interval;
    double half = next.scale / 2, twice = next.scale * 2;
    if (!ok) next.scale = half > least ? half : least;
    if (grows) next.scale = twice < most ? twice : most;
    if (!ok || grows) next.good = 0;
    return next;
}
