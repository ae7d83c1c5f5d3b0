/* The formulas of soft_cross_entropy.h for single elements, for fast kernels. */
#pragma once

#include "ops/soft_cross_entropy/soft_cross_entropy.h"
#include "ops/vector_math.h"

VECTOR_INLINE float soft_cross_entropy_exponential(float x, float largest) {
    return vector_exp_bounded(x - largest);
}

VECTOR_INLINE float soft_cross_entropy_lse(float largest, float sum) { return largest + vector_log(sum); }

VECTOR_INLINE float soft_cross_entropy_term(float x, float target, float lse) { return target * (lse - x); }

/* factor = scale weight dloss, all = the sum of the row's targets. */
VECTOR_INLINE float soft_cross_entropy_slope(float factor, float all, float x, float target, float lse) {
    return factor * (all * vector_exp_bounded(x - lse) - target);
}
