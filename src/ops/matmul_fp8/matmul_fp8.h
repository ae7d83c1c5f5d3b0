/* Matrix product on floats of 8 bits (ops/fp8.h): y = op(a) op(b) + bias + residual, or added to an
 * accumulator, with a and b seen as matrices as in ops/matmul.
 *
 *   ta = 0, tb = 0: a (...,K), b (K,N)          by a weight that lies as (in, out); a gradient of data
 *   ta = 0, tb = 1: a (...,K), b (N,K)          by a weight that lies as (out, in)
 *   ta = 1, tb = 0: a (K rows,M), b (K rows,N)  the gradient of a weight, a sum over the rows of a batch
 *
 * a comes as codes with the scales of its rows (ops/encode_fp8). So does b in a sum over rows; else it is a
 * weight in floats, which becomes e4m3 by squares on its way in, in scratch: its codes never wait for
 * anything.
 *
 * What codes stand for is exact in bf16, so this is the product of ops/matmul on these numbers, in its order
 * of sums and, on the CPU, with its kinds of bf16 by bf16: cuts at whole tiles, rows alone and threads change
 * no bit. On tensor cores of a GPU sums over rows are that product too; others multiply the codes themselves,
 * and have an order of their own (matmul_fp8_tensor_cuda.h).
 *
 * The gradient of y becomes e5m2, by rows, and both gradients multiply that: by the weight, which is rounded
 * again, and by a's codes, which is what waits for it instead of numbers of 16 bits. */
#pragma once

#include "ops/fp8.h"

typedef struct {
    int32_t ta, tb;
    int32_t type;           /* dtype of y */
    int32_t a_form, b_form; /* fp8_form */
} matmul_fp8_attributes;

enum {
    MATMUL_FP8_A,
    MATMUL_FP8_B,
    MATMUL_FP8_A_SCALES,
    MATMUL_FP8_B_SCALES,
    MATMUL_FP8_BIAS,
    MATMUL_FP8_RESIDUAL,
    MATMUL_FP8_ACCUMULATOR,
    MATMUL_FP8_INPUTS
};

typedef struct {
    tensor_id a;           /* codes, whose scales follow them */
    tensor_id b;           /* the same in a sum over rows; else f32, f16 or bf16 */
    tensor_id bias;        /* (N); 0: absent, as the following */
    tensor_id residual;    /* as y; y may live in it */
    tensor_id accumulator; /* as y, which lives in it; sums over rows only */
    bool ta, tb;
    dtype type;
    fp8_form a_form, b_form;
} matmul_fp8_inputs;

extern const op_def op_matmul_fp8;
extern const op_kernel matmul_fp8_cpu[];
extern const op_kernel matmul_fp8_cuda[];
extern const op_kernel matmul_fp8_tensor[];

tensor_id matmul_fp8_apply(graph *g, const matmul_fp8_inputs *in);

typedef struct {
    int64_t rows, columns, depth;
} matmul_fp8_sizes;
/* False where the shapes do not match. */
bool matmul_fp8_sizes_of(const shape *a, const shape *b, const matmul_fp8_attributes *t, matmul_fp8_sizes *s);

/* Scratch that a weight's codes take, with their scales behind them at the first of these; 0: b has codes. */
typedef struct {
    uint64_t scales, all;
} matmul_fp8_coded;
matmul_fp8_coded matmul_fp8_coded_of(const op_arg *b);
