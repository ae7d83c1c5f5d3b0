/* The plain product on tensor cores by groups of warps. */
#include "ops/matmul/matmul_group_cuda.h"

void matmul_group_run(const op_call *c) { matmul_tensor_run<tensor_by_groups<true>>(c); }
