/* The scalar formulas of CLIP's activation and its derivative: in double for the reference, in float for fast
 * kernels. */
#pragma once

#include <math.h>

#include "ops/vector_math.h"

static inline double quick_gelu_share(double x) { return 1 / (1 + exp(-1.702 * x)); }

static inline double quick_gelu_value(double x) { return x * quick_gelu_share(x); }

static inline double quick_gelu_slope(double x) {
    double s = quick_gelu_share(x);
    return s * (1 + 1.702 * x * (1 - s));
}

VECTOR_INLINE float quick_gelu_value_f32(float x) { return x * vector_sigmoid(1.702f * x); }

VECTOR_INLINE float quick_gelu_slope_f32(float x) {
    float s = vector_sigmoid(1.702f * x);
    return s * (1.0f + 1.702f * x * (1.0f - s));
}
