/* The formulas of tanh.h for single numbers: in double for the reference, in float for fast kernels. */
#pragma once

#include <math.h>

#include "ops/vector_math.h"

static inline double tanh_slope(double y) { return (1 - y) * (1 + y); }

VECTOR_INLINE float tanh_value_f32(float x) { return vector_tanh(x); }

VECTOR_INLINE float tanh_slope_f32(float y) { return (1.0f - y) * (1.0f + y); }
