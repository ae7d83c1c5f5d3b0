/* Some columns of a matrix: `count` runs of `width` columns, the first at `start`, each `stride` after the
 * one before. So one product may make the queries, keys and values of all heads, in whatever order a model's
 * weights have them. The gradient is dy in its place and zero elsewhere. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t start, width, stride, count;
} columns_attributes;

typedef struct {
    columns_attributes of;
    int64_t all; /* columns of dx */
} columns_backward_attributes;

extern const op_def op_columns;          /* x (..,W) -> y (..,count*width) */
extern const op_def op_columns_backward; /* dy, accumulator? (..,W) may -> dx (..,W) */
extern const op_kernel columns_cpu[], columns_backward_cpu[];
extern const op_kernel columns_cuda[], columns_backward_cuda[];

tensor_id columns_apply(graph *g, tensor_id x, const columns_attributes *a);
