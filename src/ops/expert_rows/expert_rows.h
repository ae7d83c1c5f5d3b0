/* Rows to and from the places that a router gave them (ops/route): expert_rows copies row n to its k places,
 * expert_sum adds up what lies at them, by the router's weights. Each is most of the other's gradient.
 *
 *   expert_rows:  y[places[n][j]] = x[n]
 *   expert_sum:   y[n] = sum over j of weights[n][j] x[places[n][j]]; without weights the plain sum
 *
 * Places outside of the result are passed over, so kernels stay within their buffers whatever they are given.
 */
#pragma once

#include "ir/op.h"

extern const op_def op_expert_rows; /* x (..,C) of N rows, places (N,k) -> y (N*k,C) */
extern const op_def op_expert_sum;  /* x (N*k,C), places (N,k), weights (N,k)? -> y (N,C) */
/* x, places, weights, dy (N,C) -> dx (N*k,C), dweights (N,k) */
extern const op_def op_expert_sum_backward;
extern const op_kernel expert_rows_cpu[], expert_sum_cpu[], expert_sum_backward_cpu[];
extern const op_kernel expert_rows_cuda[], expert_sum_cuda[], expert_sum_backward_cuda[];

tensor_id expert_rows_apply(graph *g, tensor_id x, tensor_id places);
tensor_id expert_sum_apply(graph *g, tensor_id x, tensor_id places, tensor_id weights);
