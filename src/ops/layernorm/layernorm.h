/* Layer normalisation over the last dimension: y = (x - mean) rstd gamma + beta,
 * rstd = 1 / sqrt(variance + eps). Mean and rstd are outputs, so that the gradient need not sum again.
 * Paper: Ba, Kiros, Hinton, "Layer normalization", arXiv:1607.06450.
 *
 * x, y and what flows back to them may have 16 bits; all else is f32 then. mean and rstd have the shape of x
 * without its last dimension, (1) where x has rank 1. Gradients flow from y only. Parameter gradients are
 * sums over tiles of THREADS_ROW_TILE rows. */
#pragma once

#include "ir/op.h"

typedef struct {
    float eps;
    int32_t type; /* dtype of y; 0: that of x */
} layernorm_attributes;

typedef struct {
    tensor_id x, gamma, mean, rstd, dy;
    tensor_id accumulator_dx, accumulator_dgamma, accumulator_dbeta; /* 0: absent */
} layernorm_backward_inputs;

extern const op_def op_layernorm; /* x, gamma (C), beta? (C) -> y, mean, rstd; y may live in x */

/* The inputs above in their order -> dx, dgamma (C), dbeta (C). dx may live in its accumulator, dy or x;
 * dgamma and dbeta must live in theirs. */
extern const op_def op_layernorm_backward;

extern const op_kernel layernorm_cpu[], layernorm_backward_cpu[];
extern const op_kernel layernorm_cuda[], layernorm_backward_cuda[];

tensor_id layernorm_apply(graph *g, tensor_id x, tensor_id gamma, tensor_id beta, float eps);
tensor_id layernorm_backward_apply(graph *g, layernorm_backward_inputs in);
