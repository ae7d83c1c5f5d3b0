/* Which elements dropout keeps, and what those are multiplied by. */
#pragma once

#include "base/philox.h"
#include "ops/dropout/dropout.h"

VECTOR_INLINE float dropout_factor(float p) { return (float)(1 / (1 - (double)p)); }

/* Of the element that this word of Philox belongs to. */
VECTOR_INLINE float dropout_value(uint32_t word, float p, float factor, float x) {
    return philox_uniform(word) >= p ? factor * x : 0.0f;
}
