/* Soft cap: y = cap tanh(x / cap), elementwise: about x where x is small, never beyond the cap.
 * Paper: Bello et al., "Neural combinatorial optimization with reinforcement learning", arXiv:1611.09940
 * (logits); Gemma team, arXiv:2408.00118 (scores of attention as well). */
#pragma once

#include "ir/op.h"

typedef struct {
    float cap; /* above 0 */
} softcap_attributes;

extern const op_def op_softcap;          /* x -> y; y may live in x */
extern const op_def op_softcap_backward; /* y, dy -> dx = dy (1 - (y / cap)^2); dx may live in either */

extern const op_kernel softcap_cpu[], softcap_backward_cpu[];
extern const op_kernel softcap_cuda[], softcap_backward_cuda[];

tensor_id softcap_apply(graph *g, tensor_id x, float cap);
tensor_id softcap_backward_apply(graph *g, tensor_id y, tensor_id dy, float cap);
