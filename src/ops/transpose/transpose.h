/* Two dimensions change places, and the numbers with them: y[..,j,..,i,..] = x[..,i,..,j,..]. The gradient is
 * the same again. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t first, second; /* dimensions, the first before the second */
} transpose_attributes;

extern const op_def op_transpose; /* x -> y */
extern const op_kernel transpose_cpu[];
extern const op_kernel transpose_cuda[];

tensor_id transpose_apply(graph *g, tensor_id x, const transpose_attributes *a);
