/* The squared distance of predictions from what they should be, summed: loss = accumulator + scale * sum of
 * (prediction - target)^2. `scale` is the reciprocal of the number of samples of the whole batch, so that
 * pieces of a batch add up to its mean. Predictions may have 16 bits, and their gradient then has; all else
 * is f32. Numbers are summed in tiles of THREADS_ROW_TILE: loss = loss + scale * tile_sum. Gradients flow to
 * the predictions only. */
#pragma once

#include "ir/op.h"

typedef struct {
    tensor_id prediction, target, scale, dloss;
} squared_error_backward_inputs;

/* prediction (...), target (...), scale (1), accumulator? (1) must -> loss (1) */
extern const op_def op_squared_error;
/* The inputs above in their order, dloss (1) -> dprediction = 2 scale dloss (prediction - target); may live
 * in prediction */
extern const op_def op_squared_error_backward;
extern const op_kernel squared_error_cpu[], squared_error_backward_cpu[];
extern const op_kernel squared_error_cuda[], squared_error_backward_cuda[];

tensor_id squared_error_apply(graph *g, tensor_id prediction, tensor_id target, tensor_id scale,
                              tensor_id accumulator);
