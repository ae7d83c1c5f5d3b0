/* Element types. f64 exists for the tests: reference kernels work in it, so that gradients can be
 * compared with finite differences. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum { DTYPE_NONE = 0, DTYPE_F32, DTYPE_F64, DTYPE_I32, DTYPE_COUNT } dtype;

enum { DTYPE_MASK_FLOAT = 1u << DTYPE_F32 | 1u << DTYPE_F64, DTYPE_MASK_INT = 1u << DTYPE_I32 };

uint32_t dtype_bytes(dtype t);   /* of one element; 0 for DTYPE_NONE */
const char *dtype_name(dtype t); /* "f32" */
static inline bool dtype_is_float(dtype t) { return (DTYPE_MASK_FLOAT >> t & 1u) != 0; }
