/* SwiGLU: y = silu(gate) * up, elementwise, of one shape: the gated half of a feed-forward layer.
 * Paper: Shazeer, "GLU variants improve transformer", arXiv:2002.05202. */
#pragma once

#include "ir/op.h"

extern const op_def op_swiglu; /* gate, up -> y; y may live in either */
extern const op_def
    op_swiglu_backward; /* gate, up, dy -> dgate, dup; dgate may live in gate or dy, dup in up or dy */

extern const op_kernel swiglu_cpu[], swiglu_backward_cpu[];

tensor_id swiglu_apply(graph *g, tensor_id gate, tensor_id up);
tensor_id swiglu_backward_apply(graph *g, tensor_id gate, tensor_id up, tensor_id dy);
