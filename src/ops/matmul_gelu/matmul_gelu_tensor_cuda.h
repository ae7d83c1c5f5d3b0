/* Products that end in GELU on tensor cores. BY: what multiplies (matmul_tensor_product). */
#pragma once

#include "ops/matmul/matmul_tensor_cuda.h"
#include "ops/matmul_gelu/matmul_gelu_cuda.h"

template <class BY, class E>
static void matmul_gelu_tensor_product(const op_call *c, const cuda_span &second) {
    const matmul_gelu_attributes *t = (const matmul_gelu_attributes *)c->attributes;
    matmul_tensor_product<BY>(c, &t->product, matmul_gelu_end_of<E>(c, second), false);
}

template <class BY>
static void matmul_gelu_tensor_run(const op_call *c) {
    matmul_gelu_tensor_product<BY, matmul_gelu_end>(c, cuda_in(c, MATMUL_GELU_BIAS));
}

template <class BY>
static void matmul_gelu_tensor_run_backward(const op_call *c) {
    matmul_gelu_tensor_product<BY, matmul_gelu_slope_end>(c, cuda_in(c, MATMUL_GELU_X));
}
