/* GELU: y = x Phi(x), elementwise, in its erf form or with the tanh approximation of GPT-2.
 * Paper: Hendrycks, Gimpel, "Gaussian error linear units", arXiv:1606.08415. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t tanh; /* 1: tanh approximation, 0: erf */
} gelu_attributes;

extern const op_def op_gelu;          /* x -> y; y may live in x */
extern const op_def op_gelu_backward; /* x, dy -> dx; dx may live in either */

extern const op_kernel gelu_cpu[], gelu_backward_cpu[];
extern const op_kernel gelu_cuda[], gelu_backward_cuda[];

/* Operations for an element, of y or of its slope; as the times of these kernels go, so that one rate serves
 * both forms. */
double gelu_flops(bool tanh, bool slope);

tensor_id gelu_apply(graph *g, tensor_id x, bool tanh);
