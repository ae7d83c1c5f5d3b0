/* Cross entropy of a softmax over the last dimension with targets that are numbers for all classes: loss =
 * accumulator + scale weight * sum over rows of the sum over j of t[j] (lse - x[j]), lse = log sum exp of the
 * row. With targets that add up to 1 this is what op_cross_entropy is for a single class. `scale` and
 * `weight` are those of element_loss.h.
 *
 * Logits may have 16 bits, and their gradient then has; losses are f32. Rows are summed in tiles of
 * THREADS_ROW_TILE: loss = loss + scale weight tile_sum. Gradients flow to the logits only. */
#pragma once

#include "ir/op.h"

typedef struct {
    float weight;
} soft_cross_entropy_attributes;

typedef struct {
    tensor_id logits, targets, scale, accumulator;
} soft_cross_entropy_inputs;

/* logits (...,V), targets (...,V), scale (1), accumulator? (1) must -> loss (1), lse (...), the rows' losses
 * (...) */
extern const op_def op_soft_cross_entropy;
/* logits, targets, scale, lse (...), dloss (1) -> dlogits = scale weight dloss (sum(t) softmax - t); may live
 * in logits */
extern const op_def op_soft_cross_entropy_backward;

extern const op_kernel soft_cross_entropy_cpu[], soft_cross_entropy_backward_cpu[];
extern const op_kernel soft_cross_entropy_cuda[], soft_cross_entropy_backward_cuda[];

/* Returns the loss. */
tensor_id soft_cross_entropy_apply(graph *g, const soft_cross_entropy_inputs *in, float weight);
