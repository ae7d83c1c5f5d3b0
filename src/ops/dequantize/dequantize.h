/* What codes of 8 bits stand for, in f32: ops/codes.h. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t columns; /* 1: a scale for each column; 0: for each row */
} dequantize_attributes;

extern const op_def op_dequantize; /* codes i8 (..., columns), scales (lanes) -> y f32, as codes */
extern const op_kernel dequantize_cpu[];
extern const op_kernel dequantize_cuda[];

tensor_id dequantize_apply(graph *g, tensor_id codes, tensor_id scales, bool columns);
