/* Products that end in GELU in tensor memory. */
#include "ops/matmul/matmul_tmem_cuda.h"
#include "ops/matmul_gelu/matmul_gelu_cuda.h"

template <class E>
static void run_end(const op_call *c, const cuda_span &second) {
    const matmul_gelu_attributes *t = (const matmul_gelu_attributes *)c->attributes;
    matmul_tmem_product(c, &t->product, matmul_gelu_end_of<E>(c, second), false);
}

void matmul_gelu_tmem_run(const op_call *c) { run_end<matmul_gelu_end>(c, cuda_in(c, MATMUL_GELU_BIAS)); }

void matmul_gelu_tmem_run_backward(const op_call *c) {
    run_end<matmul_gelu_slope_end>(c, cuda_in(c, MATMUL_GELU_X));
}
