/* Hyperbolic tangent, elementwise. The gradient reads y, so x need not stay: dx = dy (1 - y^2). */
#pragma once

#include "ir/op.h"

extern const op_def op_tanh;          /* x -> y; y may live in x */
extern const op_def op_tanh_backward; /* y, dy -> dx; dx may live in either */

extern const op_kernel tanh_cpu[], tanh_backward_cpu[];
extern const op_kernel tanh_cuda[], tanh_backward_cuda[];

tensor_id tanh_apply(graph *g, tensor_id x);
