/* The scalar formulas of GELU and its derivative, in double for the reference. */
#pragma once

#include <math.h>

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
