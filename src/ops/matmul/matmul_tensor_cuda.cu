/* The plain product on tensor cores: in a file of its own, since compiling it takes long. */
#include "ops/matmul/matmul_tensor_cuda.h"

static void run(const op_call *c) {
    const matmul_attributes *t = (const matmul_attributes *)c->attributes;
    cuda_span accumulator = cuda_in(c, MATMUL_ACCUMULATOR);
    matmul_end end = matmul_end_of(cuda_in(c, MATMUL_BIAS), cuda_in(c, MATMUL_RESIDUAL), accumulator,
                                   cuda_out(c, 0), shape_last(&c->out[0].shape));
    matmul_tensor_product(c, t, end, accumulator.data != NULL);
}

CUDA_KERNELS(matmul_tensor, { "matmul_cuda_tensor", matmul_tensor_accepts, NULL, run });
