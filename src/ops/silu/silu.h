/* SiLU (swish): y = x sigmoid(x), elementwise.
 * Papers: Hendrycks, Gimpel, arXiv:1606.08415; Ramachandran, Zoph, Le, "Searching for activation
 * functions", arXiv:1710.05941. */
#pragma once

#include "ir/op.h"

extern const op_def op_silu;          /* x -> y; y may live in x */
extern const op_def op_silu_backward; /* x, dy -> dx; dx may live in either */

extern const op_kernel silu_cpu[], silu_backward_cpu[];
extern const op_kernel silu_cuda[], silu_backward_cuda[];

tensor_id silu_apply(graph *g, tensor_id x);
tensor_id silu_backward_apply(graph *g, tensor_id x, tensor_id dy);
