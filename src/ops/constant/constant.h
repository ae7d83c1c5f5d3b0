/* A one-element constant, such as the gradient of the loss with respect to itself. */
#pragma once

#include "ir/op.h"

typedef struct {
    double value;
    int64_t dtype;
} constant_attributes;

extern const op_def op_constant; /* -> (1) */
extern const op_kernel constant_cpu[];
extern const op_kernel constant_cuda[];

tensor_id constant_apply(graph *g, dtype type, double value);
