/* The same values in another element type. To i32: towards zero. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t dtype;
} cast_attributes;

extern const op_def op_cast; /* x -> y */
extern const op_kernel cast_cpu[];
extern const op_kernel cast_cuda[];

tensor_id cast_apply(graph *g, tensor_id x, dtype type);
/* x itself where it is of that type already. */
tensor_id cast_to(graph *g, tensor_id x, dtype type);
