/* Sets every element, such as the gradients before the first micro-batch. */
#pragma once

#include "ir/op.h"

typedef struct {
    float value;
} fill_attributes;

extern const op_def op_fill; /* x must -> x, all elements `value` */
extern const op_kernel fill_cpu[];
extern const op_kernel fill_cuda[];

tensor_id fill_apply(graph *g, tensor_id x, float value);
