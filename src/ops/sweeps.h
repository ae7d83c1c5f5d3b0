/* Kernels that run several calls at once: calls that they have accepted, none of which writes what another
 * one touches. The bits are those of one call after the other, with as few starts as there can be. */
#pragma once

#include "ir/op.h"

typedef void (*op_sweep)(const op_call *calls, uint32_t count);

/* NULL: the kernel runs one call at a time. */
op_sweep op_sweep_of(const op_kernel *k);

void adamw_cuda_sweep(const op_call *calls, uint32_t count);
void lion_cuda_sweep(const op_call *calls, uint32_t count);
void sgd_cuda_sweep(const op_call *calls, uint32_t count);
void sum_squares_cuda_sweep(const op_call *calls, uint32_t count);
