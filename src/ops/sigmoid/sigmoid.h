/* The logistic function y = 1 / (1 + exp(-x)), elementwise. The gradient reads y, so x need not stay:
 * dx = dy y (1 - y). */
#pragma once

#include "ir/op.h"

extern const op_def op_sigmoid;          /* x -> y; y may live in x */
extern const op_def op_sigmoid_backward; /* y, dy -> dx; dx may live in either */

extern const op_kernel sigmoid_cpu[], sigmoid_backward_cpu[];
extern const op_kernel sigmoid_cuda[], sigmoid_backward_cuda[];

tensor_id sigmoid_apply(graph *g, tensor_id x);
