/* The scalar formulas of SiLU and its derivative: in double for the reference, in float for fast kernels. */
#pragma once

#include <math.h>

#include "ops/vector_math.h"

static inline double silu_value(double x) { return x / (1 + exp(-x)); }

static inline double silu_slope(double x) {
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

VECTOR_INLINE float silu_value_f32(float x) { return x * vector_sigmoid(x); }

VECTOR_INLINE float silu_slope_f32(float x) {
    float s = vector_sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}
