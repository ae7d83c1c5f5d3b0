/* Convolutions as packed products (ops/matmul/matmul_kernel.h), group after group:
 *
 *   y    rows: places of y,   columns: outputs,           depth: (u, v, channel)
 *   dx   rows: places of x,   columns: channels,          depth: (u, v, output)
 *   dw   rows: outputs,       columns: (u, v, channel),   depth: places of y
 *
 * Windows are gathered while they are packed. Weights, which lie otherwise, are turned once, into scratch. */
#pragma once

#include "ops/conv2d/conv2d.h"

void conv2d_packed_run(const op_call *c);
void conv2d_data_packed_run(const op_call *c);
void conv2d_weights_packed_run(const op_call *c);
uint64_t conv2d_packed_scratch(const op_call *c, int threads);
uint64_t conv2d_data_packed_scratch(const op_call *c, int threads);
uint64_t conv2d_weights_packed_scratch(const op_call *c, int threads);

/* Bytes that are copied into panels, added up between slices and turned (op_cost.bytes_moved). */
double conv2d_moved(const conv2d_attributes *a, const shape *y, const shape *w);
double conv2d_data_moved(const conv2d_attributes *a, const shape *dx, const shape *w);
double conv2d_weights_moved(const conv2d_attributes *a, const shape *dy, const shape *w);
