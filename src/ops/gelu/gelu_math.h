/* The scalar formulas of GELU and its derivative: in double for the reference, in float for fast kernels.
 * Whoever fuses GELU into something else calls the float ones, and gets the same bits. */
#pragma once

#include <math.h>

#include "ops/vector_math.h"

static inline double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static inline double gelu_tanh_slope(double x) {
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

static inline double gelu_erf(double x) { return 0.5 * x * (1 + erf(x * 0.7071067811865476)); }

static inline double gelu_erf_slope(double x) {
    return 0.5 * (1 + erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * exp(-0.5 * x * x);
}

/* exp(-2u), u the argument of the tanh: (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) takes one exponential, and
 * nothing cancels where tanh is near -1. */
VECTOR_INLINE float gelu_tanh_exponential(float x) {
    return vector_exp(-2.0f * (0.7978845608f * (x + 0.044715f * (x * x * x))));
}

VECTOR_INLINE float gelu_tanh_f32(float x) { return x * (1.0f / (1.0f + gelu_tanh_exponential(x))); }

VECTOR_INLINE float gelu_tanh_slope_f32(float x) {
    float e = gelu_tanh_exponential(x), gate = 1.0f / (1.0f + e);
    float du = 0.7978845608f * (1.0f + 0.134145f * (x * x));
    return gate + 2.0f * (x * gate) * ((e * gate) * du); /* e * gate = 1 - gate */
}

/* The normal distribution function, to 4e-8. With t = |x|/sqrt(2): near 0 an odd polynomial for erf(t), from
 * t = 1 on the exponential of a polynomial for erfc(t), fitted (minimax) to [0,1] and [1,4]; beyond 4 the
 * second goes to 0 as it should. */
VECTOR_INLINE float gelu_normal_f32(float x) {
    float t = fabsf(x) * 0.70710678f, s = t * t;
    float p = -5.4862210e-4f;
    p = p * s + 4.8774477e-3f;
    p = p * s - 2.6671034e-2f;
    p = p * s + 1.1278412e-1f;
    p = p * s - 3.7612011e-1f;
    p = p * s + 1.1283790f;
    float q = 1.1504460e-3f;
    q = q * t - 1.4778297e-2f;
    q = q * t + 8.8634685e-2f;
    q = q * t + 6.5448822e-1f;
    q = q * t + 1.1174390f;
    q = q * t + 2.6715657e-3f;
    float tail = 0.5f * vector_exp(-q), near = 0.5f * (p * t);
    float below = t > 1.0f ? tail : 0.5f - near; /* of -|x| */
    return x > 0.0f ? 1.0f - below : below;
}

VECTOR_INLINE float gelu_erf_f32(float x) { return x * gelu_normal_f32(x); }

VECTOR_INLINE float gelu_erf_slope_f32(float x) {
    return gelu_normal_f32(x) + x * (0.39894228f * vector_exp(-0.5f * (x * x)));
}
