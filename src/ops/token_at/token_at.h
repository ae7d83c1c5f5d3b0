/* One token of each sample: y[b] = x[b][place[b]]. What a sample is judged by may be its last token, and
 * samples that are filled up to one length end at different places. A place outside of the sample gives y = 0
 * and no gradient. The gradient is dy in its place and zero elsewhere. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t tokens; /* of a sample of dx */
} token_at_backward_attributes;

extern const op_def op_token_at;          /* x (B,T,C), place (B) i32 -> y (B,C) */
extern const op_def op_token_at_backward; /* place, dy (B,C), accumulator? (B,T,C) may -> dx (B,T,C) */
extern const op_kernel token_at_cpu[], token_at_backward_cpu[];
extern const op_kernel token_at_cuda[], token_at_backward_cuda[];

tensor_id token_at_apply(graph *g, tensor_id x, tensor_id place);
