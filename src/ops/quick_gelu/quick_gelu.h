/* CLIP's activation: y = x sigmoid(1.702 x), elementwise. Papers: Hendrycks, Gimpel, arXiv:1606.08415;
 * Radford et al., arXiv:2103.00020. */
#pragma once

#include "ir/op.h"

extern const op_def op_quick_gelu;          /* x -> y; y may live in x */
extern const op_def op_quick_gelu_backward; /* x, dy -> dx; dx may live in either */
extern const op_kernel quick_gelu_cpu[], quick_gelu_backward_cpu[];
extern const op_kernel quick_gelu_cuda[], quick_gelu_backward_cuda[];

tensor_id quick_gelu_apply(graph *g, tensor_id x);
