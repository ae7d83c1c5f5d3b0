/* GEGLU: y = gelu(gate) * up, elementwise, of one shape: the gated half of a feed-forward layer, as in Gemma,
 * with GELU in its erf form or with the tanh approximation. Paper: Shazeer, "GLU variants improve
 * transformer", arXiv:2002.05202. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t tanh; /* 1: tanh approximation, 0: erf */
} geglu_attributes;

extern const op_def op_geglu; /* gate, up -> y; y may live in either */
extern const op_def
    op_geglu_backward; /* gate, up, dy -> dgate, dup; dgate may live in gate or dy, dup in up or dy */

extern const op_kernel geglu_cpu[], geglu_backward_cpu[];

tensor_id geglu_apply(graph *g, tensor_id gate, tensor_id up, bool tanh);
