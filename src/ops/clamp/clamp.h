/* Bounds: y = min(max(x, -bound), bound), elementwise; what is no number stays so. The gradient passes where
 * x is at a bound or within, as PyTorch has it, so x stays.
 * Used on queries, keys and values by MosaicML's DBRX and by OLMo: Groeneveld et al., arXiv:2402.00838. */
#pragma once

#include "ir/op.h"

typedef struct {
    float bound; /* above 0 */
} clamp_attributes;

extern const op_def op_clamp;          /* x -> y; y may live in x */
extern const op_def op_clamp_backward; /* x, dy -> dx; dx may live in either */

extern const op_kernel clamp_cpu[], clamp_backward_cpu[];
extern const op_kernel clamp_cuda[], clamp_backward_cuda[];

tensor_id clamp_apply(graph *g, tensor_id x, float bound);
