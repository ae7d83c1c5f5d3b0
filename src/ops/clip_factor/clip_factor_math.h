/* The formulas of clip_factor.h; `sum` is that of the sums of squares. */
#pragma once

#include <math.h>

#include "base/vector.h"

VECTOR_INLINE double clip_factor_norm(double sum, double scale) { return sqrt(sum) / scale; }

/* A norm that is not a number is passed on, so that it is seen. */
VECTOR_INLINE double clip_factor_value(double norm, double limit, double scale) {
    double factor = limit / (norm + 1e-6);
    return (limit <= 0 || factor > 1 ? 1 : factor) / scale;
}
