/* The mean of a window of an image, for each channel: y[b,i,j,c] = mean over (u,v) of x[b, i s + u - p,
 * j s + v - p, c]. What is outside of the image does not count, not as 0 either. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t size, stride, padding;
} mean_pool_attributes;

typedef struct {
    mean_pool_attributes of;
    int32_t height, width; /* of x */
} mean_pool_backward_attributes;

extern const op_def op_mean_pool;          /* x (B,H,W,C) -> y */
extern const op_def op_mean_pool_backward; /* dy -> dx */
extern const op_kernel mean_pool_cpu[], mean_pool_backward_cpu[];
extern const op_kernel mean_pool_cuda[], mean_pool_backward_cuda[];

tensor_id mean_pool_apply(graph *g, tensor_id x, const mean_pool_attributes *a);
