/* Products that end in GELU on tensor cores. */
#include "ops/matmul/matmul_tmem_cuda.h"
#include "ops/matmul_gelu/matmul_gelu_tensor_cuda.h"

CUDA_KERNELS(matmul_gelu_tensor,
             { "matmul_gelu_cuda_group", matmul_group_accepts, NULL, matmul_gelu_group_run },
             { "matmul_gelu_cuda_tmem", matmul_tmem_accepts, NULL, matmul_gelu_tmem_run },
             { "matmul_gelu_cuda_tensor", matmul_tensor_accepts, NULL,
               matmul_gelu_tensor_run<tensor_by_warps> });
CUDA_KERNELS(matmul_gelu_backward_tensor,
             { "matmul_gelu_backward_cuda_group", matmul_group_accepts, NULL,
               matmul_gelu_group_run_backward },
             { "matmul_gelu_backward_cuda_tmem", matmul_tmem_accepts, NULL, matmul_gelu_tmem_run_backward },
             { "matmul_gelu_backward_cuda_tensor", matmul_tensor_accepts, NULL,
               matmul_gelu_tensor_run_backward<tensor_by_warps> });
