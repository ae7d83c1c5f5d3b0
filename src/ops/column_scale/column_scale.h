/* Each column by a learned factor: y[r,c] = x[r,c] gamma[c]. Paper: Touvron et al., "Going deeper with image
 * transformers" (LayerScale), arXiv:2103.17239. */
#pragma once

#include "ir/op.h"

extern const op_def op_column_scale;          /* x (..,C), gamma (C) -> y; y may live in x */
extern const op_def op_column_scale_backward; /* x, gamma, dy, accumulator? must -> dgamma, dx */
extern const op_kernel column_scale_cpu[], column_scale_backward_cpu[];
extern const op_kernel column_scale_cuda[], column_scale_backward_cuda[];

tensor_id column_scale_apply(graph *g, tensor_id x, tensor_id gamma);
