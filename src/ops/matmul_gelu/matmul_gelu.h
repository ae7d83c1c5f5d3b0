/* Matrix products that end in GELU, at the tile while it is in a cache: the value that a product with bias
 * would have gone to GELU with is never written.
 *
 *   matmul_gelu            y = gelu(op(a) op(b) + bias)        a, b, bias (optional)
 *   matmul_gelu_backward   y = op(a) op(b) * gelu'(x)          a, b, x as y: what forward's GELU was given
 *
 * The same bits as the product and GELU one after the other. passes/gelu_epilogue puts them in after
 * differentiation; they have no gradient themselves. */
#pragma once

#include "ops/matmul/matmul.h"

typedef struct {
    matmul_attributes product;
    int32_t tanh; /* as gelu_attributes */
} matmul_gelu_attributes;

enum { MATMUL_GELU_BIAS = 2, MATMUL_GELU_X = 2 }; /* places of the inputs, behind MATMUL_A and MATMUL_B */

extern const op_def op_matmul_gelu, op_matmul_gelu_backward;
extern const op_kernel matmul_gelu_cpu[], matmul_gelu_backward_cpu[];
extern const op_kernel matmul_gelu_cuda[], matmul_gelu_backward_cuda[];
extern const op_kernel matmul_gelu_tensor[], matmul_gelu_backward_tensor[];
