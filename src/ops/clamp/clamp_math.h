/* Of single numbers, for both kinds of kernels. */
#pragma once

#include "ops/vector_math.h"

VECTOR_INLINE float clamp_value_f32(float x, float bound) {
    float below = x > bound ? bound : x;
    return below < -bound ? -bound : below;
}

VECTOR_INLINE float clamp_slope_f32(float x, float dy, float bound) {
    return x < -bound || x > bound ? 0.0f : dy;
}
