/* Products that end in GELU on tensor cores. */
#include "ops/matmul/matmul_tmem_cuda.h"
#include "ops/matmul_gelu/matmul_gelu_cuda.h"

template <class E>
static void run_end(const op_call *c, const cuda_span &second) {
    const matmul_gelu_attributes *t = (const matmul_gelu_attributes *)c->attributes;
    matmul_tensor_product(c, &t->product, matmul_gelu_end_of<E>(c, second), false);
}

static void run(const op_call *c) { run_end<matmul_gelu_end>(c, cuda_in(c, MATMUL_GELU_BIAS)); }
static void run_backward(const op_call *c) { run_end<matmul_gelu_slope_end>(c, cuda_in(c, MATMUL_GELU_X)); }

CUDA_KERNELS(matmul_gelu_tensor,
             { "matmul_gelu_cuda_group", matmul_group_accepts, NULL, matmul_gelu_group_run },
             { "matmul_gelu_cuda_tmem", matmul_tmem_accepts, NULL, matmul_gelu_tmem_run },
             { "matmul_gelu_cuda_tensor", matmul_tensor_accepts, NULL, run });
CUDA_KERNELS(matmul_gelu_backward_tensor,
             { "matmul_gelu_backward_cuda_group", matmul_group_accepts, NULL,
               matmul_gelu_group_run_backward },
             { "matmul_gelu_backward_cuda_tmem", matmul_tmem_accepts, NULL, matmul_gelu_tmem_run_backward },
             { "matmul_gelu_backward_cuda_tensor", matmul_tensor_accepts, NULL, run_backward });
