/* The same elements under another shape: a view, nothing moves. */
#pragma once

#include "ir/op.h"

typedef struct {
    struct shape shape;
} reshape_attributes;

extern const op_def op_reshape; /* x -> y (attributes' shape), a view of x */

tensor_id reshape_apply(graph *g, tensor_id x, shape to);
