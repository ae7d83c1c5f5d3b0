/* What gradients are multiplied by so that their global norm is at most max_norm:
 * norm = sqrt(sum of the sums of squares), factor = min(1, max_norm / (norm + 1e-6)), as
 * torch.nn.utils.clip_grad_norm_. max_norm <= 0: factor 1, the norm alone is wanted. Where gradients were
 * made larger by a scale, which then is the first input, the norm is that of the true ones and the factor
 * divides by the scale as well. Paper: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent
 * neural networks", ICML 2013. */
#pragma once

#include "ir/op.h"

typedef struct {
    float max_norm;
    int32_t scaled; /* 1: the first input is a scale */
} clip_factor_attributes;

extern const op_def op_clip_factor; /* sums of squares (1), one or more -> factor (1), norm (1) */
extern const op_kernel clip_factor_cpu[];
extern const op_kernel clip_factor_cuda[];

tensor_id clip_factor_apply(graph *g, const tensor_id *inputs, uint32_t count,
                            const clip_factor_attributes *attributes);
