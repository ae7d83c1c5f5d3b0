/* Softmax over the last dimension: y = exp(x - max x) / sum. A row that is minus infinity throughout gives 0.
 * Paper: Bridle, "Probabilistic interpretation of feedforward classification network outputs", 1990. */
#pragma once

#include "ir/op.h"

extern const op_def op_softmax;          /* x -> y; y may live in x */
extern const op_def op_softmax_backward; /* y, dy -> dx = y (dy - sum y dy); dx may live in either */
extern const op_kernel softmax_cpu[], softmax_backward_cpu[];
extern const op_kernel softmax_cuda[], softmax_backward_cuda[];

tensor_id softmax_apply(graph *g, tensor_id x);

/* One row of n numbers; y may be x. Its sum has the order of all row sums (ops/vector_math.h). */
void softmax_row_f32(const float *x, float *y, int64_t n);
