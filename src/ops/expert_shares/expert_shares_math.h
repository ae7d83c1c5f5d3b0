/* What is worked out once for all experts, for both kinds of kernels: in double. */
#pragma once

#include "ops/vector_math.h"

/* What an expert's load is multiplied by. `load`: of all experts together; `counted`: labels. */
VECTOR_INLINE double expert_shares_factor(double load, double counted, double scale, double coefficient,
                                          int64_t experts, int32_t chosen) {
    double rows = load / chosen;
    return coefficient * (double)experts * (scale * counted) / (rows * rows);
}
