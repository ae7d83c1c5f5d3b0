/* The running maximum and sum of a query. */
#pragma once

#include "ops/vector_math.h"

/* A query that has seen nothing yet has a maximum of minus infinity; 0 stands in for it, and its sum stays 0.
 */
VECTOR_INLINE float attention_flash_reached(float top) { return top == -INFINITY ? 0.0f : top; }

/* At the end: the logarithm of the sum, and what the values' sum is multiplied by. */
VECTOR_INLINE float attention_flash_lse(float top, float sum) { return sum > 0 ? top + vector_log(sum) : 0; }
VECTOR_INLINE float attention_flash_share(float sum) { return sum > 0 ? 1.0f / sum : 0; }
