#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/matmul/matmul.h"
}

static void run(const op_call *c) {
    const matmul_attributes *t = (const matmul_attributes *)c->attributes;
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    matmul_sizes s;
    matmul_sizes_of(&a->shape, &b->shape, t, &s);
    matmul_end end = matmul_end_of(cuda_in(c, MATMUL_BIAS), cuda_in(c, MATMUL_RESIDUAL),
                                   cuda_in(c, MATMUL_ACCUMULATOR), cuda_out(c, 0), s.columns);
    matmul_plain(matmul_matrix_of(a, t->ta), matmul_matrix_of(b, !t->tb), end,
                 { s.rows, s.columns, s.depth });
}

CUDA_KERNELS(matmul_cuda, { "matmul_cuda_plain", cuda_accepts, NULL, run });
