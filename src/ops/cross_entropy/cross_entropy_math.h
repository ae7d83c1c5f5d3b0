/* The formulas of cross_entropy.h for single rows and elements. */
#pragma once

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/vector_math.h"

VECTOR_INLINE bool cross_entropy_is_counted(int32_t label, int64_t classes) {
    return label >= 0 && label < classes;
}

/* A row's sum of exponentials is added up in blocks of so many, each relative to the largest value so far
 * (Milakov, Gimelshein, arXiv:1805.02867); a larger one multiplies the sum by this. */
enum { CROSS_ENTROPY_BLOCK = 2048 };
VECTOR_INLINE float cross_entropy_shrink(float before, float after) { return vector_exp(before - after); }

VECTOR_INLINE float cross_entropy_exponential(float x, float largest) {
    return vector_exp_bounded(x - largest);
}

VECTOR_INLINE float cross_entropy_lse(float largest, float sum) { return largest + vector_log(sum); }

/* The gradient by a logit that is not the label's, and by that one; factor = scale dloss. */
VECTOR_INLINE float cross_entropy_slope(float factor, float x, float lse) {
    return factor * vector_exp_bounded(x - lse);
}

VECTOR_INLINE float cross_entropy_slope_chosen(float factor, float x, float lse) {
    return factor * (vector_exp(x - lse) - 1.0f);
}
