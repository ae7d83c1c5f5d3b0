/* Matrix product y = op(a) op(b) + bias + residual, or added to an accumulator. a and b are seen as matrices
 * (rows, last): `rows` is the product of all dimensions but the last.
 *
 *   ta = 0: a (...,K); y has a's leading dimensions and N last.    ta = 1: a (K rows, M); y (M,N).
 *   tb = 0: b (K rows, N).                                         tb = 1: b (N rows, K).
 *
 * Order of summation: ((before + slice_0) + slice_1 ...) + bias + residual, a slice being THREADS_ROW_TILE
 * products summed from 0; in f32, and a y of 16 bits is rounded once, at the end. So a product over rows that
 * is cut at whole slices and chained through the accumulator gives the same bits, and so does a separate
 * addition instead of the residual. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t ta, tb;
    int32_t type; /* dtype of y; 0: that of a */
} matmul_attributes;

enum { MATMUL_A, MATMUL_B, MATMUL_BIAS, MATMUL_RESIDUAL, MATMUL_ACCUMULATOR }; /* places of the inputs */

typedef struct {
    tensor_id a, b;
    tensor_id bias;        /* (N); 0: absent, as the following */
    tensor_id residual;    /* as y; y may live in it */
    tensor_id accumulator; /* as y, which lives in it; excludes bias and residual */
    bool ta, tb;
    dtype type; /* of y; 0: that of a */
} matmul_inputs;

extern const op_def op_matmul;
extern const op_kernel matmul_cpu[];
extern const op_kernel matmul_cuda[];
extern const op_kernel matmul_tensor[];

tensor_id matmul_apply(graph *g, const matmul_inputs *in);

/* Rows and columns of y and the length of the sums; false where the shapes do not match. */
typedef struct {
    int64_t rows, columns, depth;
    bool across; /* a lies as (depth, rows) */
} matmul_sizes;
bool matmul_sizes_of(const shape *a, const shape *b, const matmul_attributes *t, matmul_sizes *sizes);

/* ---- for ops that end a product in another way ---- */

/* Of an op whose second input is b, stored as it may be. */
op_cost matmul_cost(const graph *g, const node *n, const matmul_sizes *s);

/* One element of op(a) op(b), the first two inputs. */
double matmul_reference_sum(const op_call *c, const matmul_attributes *t, const matmul_sizes *s, int64_t row,
                            int64_t column);
