/* The plain product in tensor memory. */
#include "ops/matmul/matmul_tmem_cuda.h"

void matmul_tmem_run(const op_call *c) { matmul_tensor_run<tensor_in_tmem>(c); }
