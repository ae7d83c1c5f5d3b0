/* Twins of the packed product that ends in GELU. */
#include "ops/matmul_gelu/matmul_gelu_cuda.h"

template <class E>
static void matmul_gelu_product(const op_call *c, cuda_span second) {
    const matmul_gelu_attributes *t = (const matmul_gelu_attributes *)c->attributes;
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    matmul_sizes s;
    matmul_sizes_of(&a->shape, &b->shape, &t->product, &s);
    matmul_plain(matmul_matrix_of(a, t->product.ta), matmul_matrix_of(b, !t->product.tb),
                 matmul_gelu_end_of<E>(c, second), { s.rows, s.columns, s.depth });
}

static void run(const op_call *c) { matmul_gelu_product<matmul_gelu_end>(c, cuda_in(c, MATMUL_GELU_BIAS)); }
static void run_backward(const op_call *c) {
    matmul_gelu_product<matmul_gelu_slope_end>(c, cuda_in(c, MATMUL_GELU_X));
}

CUDA_KERNELS(matmul_gelu_cuda, { "matmul_gelu_cuda_plain", cuda_accepts, NULL, run });
CUDA_KERNELS(matmul_gelu_backward_cuda,
             { "matmul_gelu_backward_cuda_plain", cuda_accepts, NULL, run_backward });
