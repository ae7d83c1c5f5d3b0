/* The plain product on tensor cores by groups of warps. */
#include "ops/matmul/matmul_group_cuda.h"

void matmul_group_run(const op_call *c) {
    const matmul_attributes *t = (const matmul_attributes *)c->attributes;
    matmul_group_product(c, t, matmul_tensor_end(c), op_in(c, MATMUL_ACCUMULATOR)->data != NULL);
}
