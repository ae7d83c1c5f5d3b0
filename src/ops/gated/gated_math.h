/* The functions that gates go through, in double for references and in float for fast kernels. */
#pragma once

#include "ops/gated/gated.h"
#include "ops/gelu/gelu_math.h"
#include "ops/silu/silu_math.h"

static inline double gated_value(gated_function f, double x) {
    return f == GATED_SILU ? silu_value(x) : f == GATED_GELU_TANH ? gelu_tanh(x) : gelu_erf(x);
}

static inline double gated_slope(gated_function f, double x) {
    return f == GATED_SILU ? silu_slope(x) : f == GATED_GELU_TANH ? gelu_tanh_slope(x) : gelu_erf_slope(x);
}

/* f is a constant wherever these are inlined into a loop. */
VECTOR_INLINE float gated_value_f32(const gated_function f, float x) {
    return f == GATED_SILU ? silu_value_f32(x) : f == GATED_GELU_TANH ? gelu_tanh_f32(x) : gelu_erf_f32(x);
}

VECTOR_INLINE float gated_slope_f32(const gated_function f, float x) {
    return f == GATED_SILU        ? silu_slope_f32(x)
           : f == GATED_GELU_TANH ? gelu_tanh_slope_f32(x)
                                  : gelu_erf_slope_f32(x);
}
