/* Lion: steps of one size, in the direction that a mean of gradients points to. With g' = scale g,
 *   w' = w - lr weight_decay w - lr sign(m + (1 - beta1) (g' - m))
 *   m' = m + (1 - beta2) (g' - m)
 * where sign(0) = 0. One state for each weight, which may be kept in fewer bits (ops/state.h). Every element
 * moves by lr, so lr is some three to ten times smaller than AdamW's, and the weight decay as much larger.
 * Paper: Chen et al., "Symbolic discovery of optimization algorithms", arXiv:2302.06675. */
#pragma once

#include "ir/op.h"
#include "ir/update.h"

typedef struct {
    float beta1, beta2, weight_decay;
    int32_t stream; /* of the random bits, with key */
} lion_attributes;

typedef struct {
    tensor_id w, g, m; /* of one shape */
    tensor_id lr;      /* (1) */
    tensor_id scale;   /* (1), absent: 1; multiplies g (clipping) */
    tensor_id ok;      /* (1) i32, absent: 1; where 0 everything stays as it is */
    tensor_id scales;  /* of m, where it is u8 */
    tensor_id key;     /* (4) i32: results of bf16 are rounded stochastically; absent: to the nearest */
} lion_inputs;

extern const op_def
    op_lion; /* the inputs above in their order -> w', m' and, with them, scales', living in w, m, scales */
extern const op_state lion_states[1];
extern const op_kernel lion_cpu[];
extern const op_kernel lion_cuda[];

tensor_id lion_apply(graph *g, lion_inputs in, const lion_attributes *attributes);
