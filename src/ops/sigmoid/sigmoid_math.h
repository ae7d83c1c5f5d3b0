/* The formulas of sigmoid.h for single numbers: in double for the reference, in float for fast kernels. */
#pragma once

#include <math.h>

#include "ops/vector_math.h"

static inline double sigmoid_value(double x) { return 1 / (1 + exp(-x)); }

static inline double sigmoid_slope(double y) { return y * (1 - y); }

VECTOR_INLINE float sigmoid_value_f32(float x) { return vector_sigmoid(x); }

VECTOR_INLINE float sigmoid_slope_f32(float y) { return y * (1.0f - y); }
