/* Element access for reference kernels: they compute in double and work on every dtype, so one plain
 * kernel serves as the reference of all fast ones and, on f64 data, for finite differences. */
#pragma once

#include "base/half.h"
#include "ir/op.h"

static inline double reference_get(const op_arg *x, int64_t i) {
    switch (x->dtype) {
    case DTYPE_F32: return (double)((const float *)x->data)[i];
    case DTYPE_F64: return ((const double *)x->data)[i];
    case DTYPE_F16: return (double)half_from_f16(((const uint16_t *)x->data)[i]);
    case DTYPE_BF16: return (double)half_from_bf16(((const uint16_t *)x->data)[i]);
    case DTYPE_I32: return (double)((const int32_t *)x->data)[i];
    case DTYPE_I8: return (double)((const int8_t *)x->data)[i];
    case DTYPE_U8: return (double)((const uint8_t *)x->data)[i];
    default: return 0;
    }
}

static inline void reference_set(const op_arg *x, int64_t i, double value) {
    switch (x->dtype) {
    case DTYPE_F32: ((float *)x->data)[i] = (float)value; break;
    case DTYPE_F64: ((double *)x->data)[i] = value; break;
    case DTYPE_F16: ((uint16_t *)x->data)[i] = half_to_f16((float)value); break;
    case DTYPE_BF16: ((uint16_t *)x->data)[i] = half_to_bf16((float)value); break;
    case DTYPE_I32: ((int32_t *)x->data)[i] = (int32_t)value; break;
    case DTYPE_I8: ((int8_t *)x->data)[i] = (int8_t)value; break;
    case DTYPE_U8: ((uint8_t *)x->data)[i] = (uint8_t)value; break;
    default: break;
    }
}
