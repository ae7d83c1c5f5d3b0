/* What becomes of a block of sums: an accumulator is added before it, bias and residual behind it, then GELU
 * is taken of it, and it is stored in the type of y. */
#pragma once

#include "ops/matmul/matmul_kernel.h"

typedef struct {
    const float *sum;
    const void *before, *bias, *residual; /* these may be NULL */
    void *out;                            /* may be before or residual */
    int64_t sum_stride, before_stride, residual_stride, out_stride;
    int64_t rows, columns;
    matmul_gelu_form gelu;
    const void *x;                      /* strides as out */
    dtype before_type, bias_type, type; /* type: of out, residual and x */
} matmul_epilogue;

void matmul_epilogue_run(const matmul_epilogue *e);

/* The element at a place of numbers of f32, f16 or bf16. */
static inline const void *matmul_element(const void *data, int64_t place, dtype type) {
    return (const char *)data + place * matmul_bytes(type);
}
