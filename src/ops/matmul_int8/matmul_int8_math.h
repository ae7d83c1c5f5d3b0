/* How floats become codes on their way into a product, for the kernels of every kind of device. */
#pragma once

#include "ops/codes.h"

/* The scale of a line whose largest codes_size this is; `fixed` NULL: its own. What is not finite stays seen
 * under a fixed scale as well. */
VECTOR_INLINE float matmul_int8_scale_of(const float *fixed, int32_t largest) {
    float own = codes_scale(largest);
    return fixed && own - own == 0.0f ? *fixed : own;
}
