/* Matrix product on codes of 8 bits (ops/codes.h): y = op(a) op(b) + bias + residual, or added to an
 * accumulator, with a and b seen as matrices as in ops/matmul.
 *
 *   ta = 0, tb = 0: a (...,K), b (K,N)          by a weight that lies as (in, out); a gradient of data
 *   ta = 0, tb = 1: a (...,K), b (N,K)          by a weight that lies as (out, in)
 *   ta = 1, tb = 0: a (K rows,M), b (K rows,N)  the gradient of a weight, a sum over the rows of a batch
 *
 * Operands are quantized along the sum: a line is a row of op(a) or a column of op(b), and
 *
 *   y[i][j] = scale_a[i] scale_b[j] sum_k code_a[i][k] code_b[k][j]
 *
 * where the inner sum is of integers, so exact in any order. a comes as floats and is quantized here, into
 * scratch; b comes as floats or, with scales, as codes. Those of a stored weight belong to its outputs. In
 * y = x W these are y's columns; in the gradient of data they run along the sum instead (`folded`), and
 * multiply a before that is quantized. Over the rows of a batch each tile of THREADS_ROW_TILE rows has scales
 * of its own, and tiles are added up in f32, one after the other: so cutting the batch at whole tiles changes
 * no bit, as in ops/matmul.
 *
 * Rounding is to the nearest; over the rows of a batch, with a key, stochastic by 8 bits: a's belong to
 * `stream`, b's to `stream` + 1, and there to sample (dimension 0), row and column within the sample
 * (ops/codes.h). In other products the key only waits for the gradient. With `fixed` a's codes have that
 * scale, found beforehand, and what lies beyond 127 of it is cut off. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t ta, tb;
    int32_t type;               /* dtype of y; 0: that of a */
    int32_t folded;             /* b's scales run along the sum */
    int32_t stream;             /* of the random bits, and the one after it */
    int32_t first, sample_rows; /* where the rows that are summed are some of a whole: the whole's first of
                                   them, and how many make a sample; sample_rows 0: they are all */
} matmul_int8_attributes;

enum {
    MATMUL_INT8_A,
    MATMUL_INT8_B,
    MATMUL_INT8_SCALES,
    MATMUL_INT8_BIAS,
    MATMUL_INT8_RESIDUAL,
    MATMUL_INT8_ACCUMULATOR,
    MATMUL_INT8_KEY,
    MATMUL_INT8_FIXED,
    MATMUL_INT8_INPUTS
};

typedef struct {
    tensor_id a;           /* f32, f16, bf16 */
    tensor_id b;           /* the same, or i8 */
    tensor_id scales;      /* of b where that is i8: one for each output; absent otherwise */
    tensor_id bias;        /* (N), or absent, as the following */
    tensor_id residual;    /* as y; y may live in it */
    tensor_id accumulator; /* as y, which lives in it; sums over rows only */
    tensor_id key;         /* (4) i32 */
    tensor_id fixed;       /* (1), of a */
    bool ta, tb, folded;
    dtype type;
    int32_t stream;
} matmul_int8_inputs;

extern const op_def op_matmul_int8;
extern const op_kernel matmul_int8_cpu[];
extern const op_kernel matmul_int8_cuda[];

tensor_id matmul_int8_apply(graph *g, const matmul_int8_inputs *in);

enum { MATMUL_INT8_LONGEST = 1 << 17 }; /* a sum of so many products of codes fits into 32 bits */

typedef struct {
    int64_t rows, columns, depth;
} matmul_int8_sizes;
/* False where the shapes do not match. */
bool matmul_int8_sizes_of(const shape *a, const shape *b, const matmul_int8_attributes *t,
                          matmul_int8_sizes *s);
