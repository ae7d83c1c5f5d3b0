/* A loss that adds up one number for each element of the predictions: loss = accumulator + scale weight * sum
 * of f(prediction, target). f is the squared error (x - t)^2, the absolute error |x - t|, or the cross
 * entropy of a sigmoid, log(1 + exp(x)) - t x, for targets from 0 to 1. `scale` is the reciprocal of the
 * number of samples of the whole batch, so that pieces of a batch add up to its mean, and `weight` that of
 * the elements of a sample where their mean is wanted.
 *
 * Predictions may have 16 bits, and their gradient then has; all else is f32. Numbers are summed in tiles of
 * THREADS_ROW_TILE: loss = loss + scale weight tile_sum. Gradients flow to the predictions only; the absolute
 * error has the slope 0 where there is no error. */
#pragma once

#include "ir/op.h"

typedef enum { ELEMENT_LOSS_SQUARED, ELEMENT_LOSS_ABSOLUTE, ELEMENT_LOSS_BINARY } element_loss_function;

typedef struct {
    int32_t function; /* element_loss_function */
    float weight;
} element_loss_attributes;

typedef struct {
    tensor_id prediction, target, scale, accumulator;
} element_loss_inputs;

/* prediction (...), target (...), scale (1), accumulator? (1) must -> loss (1) */
extern const op_def op_element_loss;
/* prediction, target, scale, dloss (1) -> dprediction; may live in prediction */
extern const op_def op_element_loss_backward;
extern const op_kernel element_loss_cpu[], element_loss_backward_cpu[];
extern const op_kernel element_loss_cuda[], element_loss_backward_cuda[];

tensor_id element_loss_apply(graph *g, const element_loss_inputs *in, const element_loss_attributes *a);
