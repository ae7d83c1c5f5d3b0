/* A learned token before those of a sample: y[b] = token | x[b]. Paper: Dosovitskiy et al., "An image is
 * worth 16x16 words", arXiv:2010.11929. */
#pragma once

#include "ir/op.h"

extern const op_def op_class_token;          /* x (B,T,C), token (C) -> y (B,T+1,C) */
extern const op_def op_class_token_backward; /* dy, accumulator? must -> dtoken (C), dx */
extern const op_kernel class_token_cpu[], class_token_backward_cpu[];
extern const op_kernel class_token_cuda[], class_token_backward_cuda[];

tensor_id class_token_apply(graph *g, tensor_id x, tensor_id token);
