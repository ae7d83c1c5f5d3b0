/* Products that end in GELU in tensor memory. */
#include "ops/matmul/matmul_tmem_cuda.h"
#include "ops/matmul_gelu/matmul_gelu_tensor_cuda.h"

void matmul_gelu_tmem_run(const op_call *c) { matmul_gelu_tensor_run<tensor_in_tmem>(c); }
void matmul_gelu_tmem_run_backward(const op_call *c) { matmul_gelu_tensor_run_backward<tensor_in_tmem>(c); }
