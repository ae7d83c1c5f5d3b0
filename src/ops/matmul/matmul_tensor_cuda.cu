/* The plain product on tensor cores: in a file of its own, since compiling it takes long. Those that one
 * capability alone has are in others (matmul_group_cuda.cu, matmul_tmem_cuda.cu), for the same reason. */
#include "ops/matmul/matmul_tmem_cuda.h"

CUDA_KERNELS(matmul_tensor, { "matmul_cuda_group", matmul_group_accepts, NULL, matmul_group_run },
             { "matmul_cuda_tmem", matmul_tmem_accepts, NULL, matmul_tmem_run },
             { "matmul_cuda_tensor", matmul_tensor_accepts, NULL, matmul_tensor_run<tensor_by_warps> });
