/* The formulas of element_loss.h for single elements: in double for references, in float for fast kernels. */
#pragma once

#include <math.h>

#include "ops/element_loss/element_loss.h"
#include "ops/vector_math.h"

static inline double element_loss_value(element_loss_function f, double x, double t) {
    double away = x - t;
    if (f == ELEMENT_LOSS_SQUARED) return away * away;
    if (f == ELEMENT_LOSS_ABSOLUTE) return fabs(away);
    return fmax(x, 0) - x * t + log1p(exp(-fabs(x)));
}

static inline double element_loss_slope(element_loss_function f, double x, double t) {
    if (f == ELEMENT_LOSS_SQUARED) return 2 * (x - t);
    if (f == ELEMENT_LOSS_ABSOLUTE) return x > t ? 1 : x < t ? -1 : 0;
    return 1 / (1 + exp(-x)) - t;
}

/* f is a constant wherever these are inlined into a loop. */
VECTOR_INLINE float element_loss_value_f32(const element_loss_function f, float x, float t) {
    float away = x - t, size = x < 0.0f ? -x : x;
    if (f == ELEMENT_LOSS_SQUARED) return away * away;
    if (f == ELEMENT_LOSS_ABSOLUTE) return away < 0.0f ? -away : away;
    return (x > 0.0f ? x : 0.0f) - x * t + vector_log(1.0f + vector_exp_bounded(-size));
}

VECTOR_INLINE float element_loss_slope_f32(const element_loss_function f, float x, float t) {
    if (f == ELEMENT_LOSS_SQUARED) return 2.0f * (x - t);
    if (f == ELEMENT_LOSS_ABSOLUTE) return x > t ? 1.0f : x < t ? -1.0f : 0.0f;
    return vector_sigmoid(x) - t;
}
