/* Rectified linear units: y = max(x, 0), elementwise. The gradient reads y, so x need not stay.
 * Paper: Nair, Hinton, "Rectified linear units improve restricted Boltzmann machines" (2010). */
#pragma once

#include "ir/op.h"

extern const op_def op_relu;          /* x -> y; y may live in x */
extern const op_def op_relu_backward; /* y, dy -> dx; dx may live in either */
extern const op_kernel relu_cpu[], relu_backward_cpu[];
extern const op_kernel relu_cuda[], relu_backward_cuda[];

tensor_id relu_apply(graph *g, tensor_id x);
