/* A tensor of zeros: what a sum begins with that nodes add to. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t dim[SHAPE_MAX_RANK]; /* behind `rank` of them zeros */
    int64_t rank;
} zeros_attributes;

extern const op_def op_zeros; /* -> f32, of the shape in the attributes */
extern const op_kernel zeros_cpu[];
extern const op_kernel zeros_cuda[];

tensor_id zeros_apply(graph *g, shape s);
