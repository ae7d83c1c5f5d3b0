/* Products that end in GELU on tensor cores by groups of warps. */
#include "ops/matmul/matmul_group_cuda.h"
#include "ops/matmul_gelu/matmul_gelu_tensor_cuda.h"

void matmul_gelu_group_run(const op_call *c) { matmul_gelu_tensor_run<tensor_by_groups<true>>(c); }
void matmul_gelu_group_run_backward(const op_call *c) {
    matmul_gelu_tensor_run_backward<tensor_by_groups<true>>(c);
}
