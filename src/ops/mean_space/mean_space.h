/* The mean over all places of a sample, for each channel: an image becomes one row. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t height, width;
} mean_space_backward_attributes;

extern const op_def op_mean_space;          /* x (B,H,W,C) -> y (B,C) */
extern const op_def op_mean_space_backward; /* dy -> dx */
extern const op_kernel mean_space_cpu[], mean_space_backward_cpu[];
extern const op_kernel mean_space_cuda[], mean_space_backward_cuda[];

tensor_id mean_space_apply(graph *g, tensor_id x);
