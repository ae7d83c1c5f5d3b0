/* The plain product in tensor memory. */
#include "ops/matmul/matmul_tmem_cuda.h"

void matmul_tmem_run(const op_call *c) {
    const matmul_attributes *t = (const matmul_attributes *)c->attributes;
    matmul_tmem_product(c, t, matmul_tensor_end(c), op_in(c, MATMUL_ACCUMULATOR)->data != NULL);
}
