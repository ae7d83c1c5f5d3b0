/* Matrix product with a matrix of codes of 4 bits (ops/codes4.h): y = a w' + bias + residual. a is seen as a
 * matrix (rows, depth); it comes as floats and becomes codes of 8 bits, in scratch, with a scale for each
 * group of a row. Then
 *
 *   y[i][j] = sum over slices, of the sum over a slice's groups g, of
 *             (f32)(sum over d in g of code_a[i][d] code_w[j][d]) * (scale_a[i][g] scale_w[j][g])
 *
 * The inner sum is of integers; sums of f32 begin at 0 and go in order, with no fused multiply-add. A slice
 * has MATMUL_INT4_SLICE groups, so the order depends on the depth alone: a row has the same bits alone and
 * among others, from every set of instructions, and on GPUs.
 *
 * w is read where it lies and is constant. There is no gradient: such models are for evaluating and
 * generating. */
#pragma once

#include "ir/op.h"
#include "ops/codes4.h"

typedef struct {
    int32_t type; /* dtype of y; 0: that of a */
} matmul_int4_attributes;

enum {
    MATMUL_INT4_A,        /* (...,depth) f32, f16, bf16 */
    MATMUL_INT4_CODES,    /* (outputs, depth / 2) u8 */
    MATMUL_INT4_SCALES,   /* (outputs * groups) f16 */
    MATMUL_INT4_BIAS,     /* (outputs), or absent */
    MATMUL_INT4_RESIDUAL, /* as y; y may live in it; or absent */
    MATMUL_INT4_INPUTS
};

enum { MATMUL_INT4_SLICE = 8 };

typedef struct {
    tensor_id a, codes, scales, bias, residual;
    dtype type;
} matmul_int4_inputs;

extern const op_def op_matmul_int4;
extern const op_kernel matmul_int4_cpu[];
extern const op_kernel matmul_int4_cuda[];

tensor_id matmul_int4_apply(graph *g, const matmul_int4_inputs *in);
