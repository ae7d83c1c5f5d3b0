/* Each row by a factor of its own between 0 and 1: y[r] = sigmoid(gate[r]) x[r]. So Qwen's mixtures let a
 * shared expert through (Yang et al., arXiv:2407.10671). */
#pragma once

#include "ir/op.h"

extern const op_def op_row_gate;          /* x (..,C), gate (..,1) -> y; y may live in x */
extern const op_def op_row_gate_backward; /* x, gate, dy -> dx, dgate; dx may live in x or dy */
extern const op_kernel row_gate_cpu[], row_gate_backward_cpu[];
extern const op_kernel row_gate_cuda[], row_gate_backward_cuda[];

tensor_id row_gate_apply(graph *g, tensor_id x, tensor_id gate);
