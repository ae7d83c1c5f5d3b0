/* y = x * factor (attribute) * factor input, elementwise. The gradient flows to x only. */
#pragma once

#include "ir/op.h"

typedef struct {
    float factor;
} scale_attributes;

extern const op_def op_scale; /* x, factor? (1) -> y; y may live in x */
extern const op_kernel scale_cpu[];
extern const op_kernel scale_cuda[];

tensor_id scale_apply(graph *g, tensor_id x, tensor_id factor_input, float factor);
