/* AdamW, in the order of PyTorch's: with g' = scale g,
 *   w  = w - lr weight_decay w
 *   m' = m + (1 - beta1) (g' - m),  v' = beta2 v + (1 - beta2) g'^2
 *   w' = w - lr / (1 - beta1^t) * m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
 * One sweep over the memory. The moments may be kept in fewer bits (ops/state.h). Paper: Loshchilov, Hutter,
 * "Decoupled weight decay regularization", arXiv:1711.05101. */
#pragma once

#include "ir/op.h"
#include "ir/update.h"

typedef struct {
    float beta1, beta2, eps, weight_decay;
    int32_t stream; /* of the random bits, with key */
} adamw_attributes;

typedef struct {
    tensor_id w, g, m, v;         /* of one shape */
    tensor_id lr;                 /* (1) */
    tensor_id t;                  /* (1) i32: number of this update, 1 for the first */
    tensor_id scale;              /* (1), absent: 1; multiplies g (clipping) */
    tensor_id ok;                 /* (1) i32, absent: 1; where 0 everything stays as it is */
    tensor_id m_scales, v_scales; /* where these are u8 */
    tensor_id key; /* (4) i32: results of bf16 are rounded stochastically; absent: to the nearest */
} adamw_inputs;

extern const op_def op_adamw; /* the inputs above in their order -> w', m', v' and, with them, m_scales',
                                 v_scales', where those were */
extern const op_state adamw_states[2];
extern const op_kernel adamw_cpu[];
extern const op_kernel adamw_cuda[];

tensor_id adamw_apply(graph *g, adamw_inputs in, const adamw_attributes *attributes);
