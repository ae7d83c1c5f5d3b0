/* Root mean square normalisation over the last dimension: y = x rstd gamma,
 * rstd = 1 / sqrt(mean of squares + eps). rstd is an output, so that the gradient need not sum again.
 * Paper: Zhang, Sennrich, "Root mean square layer normalization", arXiv:1910.07467.
 *
 * Where the scale is stored as its distance from 1 (Gemma), `plus` is 1 and gamma is plus + the stored one.
 *
 * rstd has the shape of x without its last dimension, (1) where x has rank 1. Gradients flow from y only. */
#pragma once

#include "ir/op.h"

typedef struct {
    float eps;
    int32_t type; /* dtype of y; 0: that of x */
    float plus;   /* added to gamma */
} rmsnorm_attributes;

typedef struct {
    float plus;
} rmsnorm_backward_attributes;

typedef struct {
    tensor_id x, gamma, rstd, dy;
    tensor_id accumulator_dx, accumulator_dgamma; /* 0: absent */
} rmsnorm_backward_inputs;

extern const op_def op_rmsnorm; /* x, gamma (C) -> y, rstd; y may live in x */

/* The inputs above in their order -> dx, dgamma (C). dx may live in its accumulator, dy or x; dgamma must
 * live in its accumulator. */
extern const op_def op_rmsnorm_backward;

extern const op_kernel rmsnorm_cpu[], rmsnorm_backward_cpu[];
extern const op_kernel rmsnorm_cuda[], rmsnorm_backward_cuda[];

tensor_id rmsnorm_apply(graph *g, tensor_id x, tensor_id gamma, const rmsnorm_attributes *a);
tensor_id rmsnorm_backward_apply(graph *g, rmsnorm_backward_inputs in, float plus);
