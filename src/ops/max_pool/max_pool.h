/* The largest of a window of an image, for each channel: y[b,i,j,c] = max over (u,v) of x[b, i s + u - p,
 * j s + v - p, c]; what is outside of the image does not count. Where it was found is kept for the gradient,
 * as a place of the image; of equals the first. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t size, stride, padding;
} max_pool_attributes;

typedef struct {
    int32_t height, width; /* of x */
} max_pool_backward_attributes;

extern const op_def op_max_pool;          /* x (B,H,W,C) -> y, places i32 of its shape */
extern const op_def op_max_pool_backward; /* places, dy -> dx */
extern const op_kernel max_pool_cpu[], max_pool_backward_cpu[];
extern const op_kernel max_pool_cuda[], max_pool_backward_cuda[];

/* Returns y; places follow. */
tensor_id max_pool_apply(graph *g, tensor_id x, const max_pool_attributes *a);
