/* What the op keeps of a query's softmax. */
#pragma once

#include "ops/attention/attention_math.h"
#include "ops/vector_math.h"

/* The logarithm of the sum. */
VECTOR_INLINE float attention_flash_lse(float top, float sum) { return sum > 0 ? top + vector_log(sum) : 0; }
