/* Cross entropy of a softmax over the last dimension, summed: loss = accumulator + scale * sum over rows of
 * (lse - logit[label]), lse = log sum exp of the row. `scale` is the reciprocal of the number of counted
 * labels of the whole batch, so that pieces of a batch add up to its mean.
 *
 * Logits may have 16 bits, and their gradient then has; all else is f32. Label CROSS_ENTROPY_IGNORE is not
 * counted; nor is any other label outside of the vocabulary. Rows are summed in tiles of THREADS_ROW_TILE:
 * loss = loss + scale * tile_sum. lse has the shape of the labels; it is written for ignored rows as well.
 * Gradients flow from the loss only. */
#pragma once

#include "ir/op.h"

enum { CROSS_ENTROPY_IGNORE = -100 };

typedef struct {
    tensor_id logits, labels, scale, lse, dloss;
} cross_entropy_backward_inputs;

/* logits (...,V), labels (...) i32, scale (1), accumulator? (1) must -> loss (1), lse (...) */
extern const op_def op_cross_entropy;
/* The inputs above in their order, dloss (1) -> dlogits = scale dloss (softmax - one-hot), 0 in ignored rows;
 * may live in logits */
extern const op_def op_cross_entropy_backward;

extern const op_kernel cross_entropy_cpu[], cross_entropy_backward_cpu[];
extern const op_kernel cross_entropy_cuda[], cross_entropy_backward_cuda[];

tensor_id cross_entropy_apply(graph *g, tensor_id logits, tensor_id labels, tensor_id scale,
                              tensor_id accumulator);
tensor_id cross_entropy_backward_apply(graph *g, cross_entropy_backward_inputs in);
