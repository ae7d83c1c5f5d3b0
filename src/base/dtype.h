/* Element types. f16 and bf16 are stored only: kernels widen them (base/half.h) and compute in f32. f64
 * exists for the tests: reference kernels work in it, so that gradients can be compared with finite
 * differences. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum dtype {
    DTYPE_NONE = 0,
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_I32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_COUNT
} dtype;

enum {
    DTYPE_MASK_HALF = 1u << DTYPE_F16 | 1u << DTYPE_BF16, /* the floats of 16 bits */
    DTYPE_MASK_WIDE = 1u << DTYPE_F32 | 1u << DTYPE_F64,  /* the floats that are computed with */
    DTYPE_MASK_FLOAT = DTYPE_MASK_WIDE | DTYPE_MASK_HALF,
    DTYPE_MASK_INT = 1u << DTYPE_I32,
    DTYPE_MASK_BYTE = 1u << DTYPE_I8 | 1u << DTYPE_U8,
};

/* Of one element; 0 for DTYPE_NONE. */
static inline uint32_t dtype_bytes(dtype t) {
    static const uint8_t bytes[DTYPE_COUNT] = { 0, 4, 8, 4, 2, 2, 1, 1 }; /* in the order above */
    return bytes[t];
}
const char *dtype_name(dtype t); /* "f32" */
static inline bool dtype_is_float(dtype t) { return (DTYPE_MASK_FLOAT >> t & 1u) != 0; }
static inline bool dtype_is_half(dtype t) { return (DTYPE_MASK_HALF >> t & 1u) != 0; }
/* What kernels compute in where this is stored. Ops take any mixture of types that are computed alike. */
static inline dtype dtype_wide(dtype t) { return dtype_is_half(t) ? DTYPE_F32 : t; }
