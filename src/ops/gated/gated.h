/* Gated linear units: y = f(gate) * up, elementwise, of one shape: the inside of a feed-forward layer of the
 * Llama kind. f is SiLU (SwiGLU), or GELU in its erf form or with the tanh approximation (GEGLU). Paper:
 * Shazeer, "GLU variants improve transformer", arXiv:2002.05202. */
#pragma once

#include "ir/op.h"

typedef enum { GATED_SILU, GATED_GELU_TANH, GATED_GELU_ERF } gated_function;

typedef struct {
    int32_t function; /* gated_function */
} gated_attributes;

extern const op_def op_gated; /* gate, up -> y; y may live in either */
/* gate, up, dy -> dgate, dup; dgate may live in gate or dy, dup in up or dy */
extern const op_def op_gated_backward;

extern const op_kernel gated_cpu[], gated_backward_cpu[];
extern const op_kernel gated_cuda[], gated_backward_cuda[];

tensor_id gated_apply(graph *g, tensor_id gate, tensor_id up, gated_function f);
