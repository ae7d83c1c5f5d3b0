/* Matrix product with a matrix that is held as codes: y = x W + bias + residual or, with `tb`, x W' . x is
 * floats, seen as a matrix (rows, last); W is widened to f32 part by part, while panels are packed
 * (ops/matmul), and never as a whole. What it holds is fixed: its gradient is none, that of x is the same
 * product with W turned.
 *
 *   NF4: codes u8 (K, N / 2), scales (K * nf4_blocks(N))    ops/nf4.h
 *   i8:  codes i8 (K, N),     scales (N): of columns         ops/codes.h
 *                             or (K), `rows`: of rows, where the matrix lies as (out, in)
 *
 * The order of summation, and so every bit, is that of ops/matmul on the numbers that the codes stand for. */
#pragma once

#include "ops/matmul/matmul.h"

typedef struct {
    int32_t tb;
    int32_t type; /* dtype of y; 0: that of x */
    int32_t rows; /* of i8: a scale for each row; else for each column */
} matmul_coded_attributes;

enum {
    MATMUL_CODED_X,
    MATMUL_CODED_CODES,
    MATMUL_CODED_SCALES,
    MATMUL_CODED_BIAS,
    MATMUL_CODED_RESIDUAL,
    MATMUL_CODED_INPUTS
};

typedef struct {
    tensor_id x, codes, scales;
    tensor_id bias;     /* as long as a row of y; 0: absent */
    tensor_id residual; /* as y; y may live in it; 0: absent */
    bool tb, rows;
    dtype type;
} matmul_coded_inputs;

extern const op_def op_matmul_coded;
extern const op_kernel matmul_coded_cpu[];
extern const op_kernel matmul_coded_cuda[];

tensor_id matmul_coded_apply(graph *g, const matmul_coded_inputs *in);

/* The shape of the matrix that codes of this type and shape stand for, and how many scales it has; `rows` as
 * above. */
shape matmul_coded_shape(dtype codes, const shape *s);
int64_t matmul_coded_scales(dtype codes, const shape *matrix, bool rows);
/* Has a matrix of this shape codes of the type? And of which shape? */
bool matmul_coded_can(dtype codes, const shape *matrix);
shape matmul_coded_codes(dtype codes, const shape *matrix);
