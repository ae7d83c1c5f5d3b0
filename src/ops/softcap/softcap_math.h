/* Soft caps of single numbers, for the op itself and for scores of attention. */
#pragma once

#include "ops/vector_math.h"

/* Near 0 the series of tanh, whose next term is below 2^-24 of the first: the difference of two numbers near
 * 1 that stands for it elsewhere would leave few digits there. */
VECTOR_INLINE float softcap_tanh(float x) {
    float s = x * x;
    float series = x * (1.0f + s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315 + s * (62.0f / 2835)))));
    return s < 0.0625f ? series : vector_tanh(x);
}

VECTOR_INLINE float softcap_value_f32(float x, float cap) { return cap * softcap_tanh(x / cap); }

/* Of the capped value. */
VECTOR_INLINE float softcap_slope_f32(float y, float cap) {
    float t = y / cap;
    return 1.0f - t * t;
}
