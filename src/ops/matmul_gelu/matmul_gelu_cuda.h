/* The ends of products with GELU on GPUs: the product rounds to the type of y, as one that stands alone does,
 * and GELU reads that. */
#pragma once

#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/matmul_gelu/matmul_gelu.h"
}
#include "ops/gelu/gelu_math.h"

/* What a product of its own would have stored; no minus 0, which the CPU's addition to 0 ends as well. */
GPU_INLINE float matmul_gelu_stored(const cuda_span &y, float sum) { return y.stored(sum) + 0.0f; }

struct matmul_gelu_end {
    cuda_span bias, y; /* bias.data may be NULL */
    int64_t columns;
    bool tanh, fours;

    __device__ __forceinline__ float of(float sum) const {
        float x = matmul_gelu_stored(y, sum);
        return tanh ? gelu_tanh_f32(x) : gelu_erf_f32(x);
    }
    __device__ __forceinline__ float before(int64_t, int64_t) const { return 0; }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        y.set(row * columns + column, of(bias.data ? sum + bias.get(column) : sum));
    }
    __device__ __forceinline__ void before4(int64_t, int64_t, float *) const {}
    __device__ __forceinline__ void end4(int64_t row, int64_t column, float x[4]) const {
        matmul_add4(bias, column, x);
#pragma unroll
        for (int k = 0; k < 4; k++) x[k] = of(x[k]);
        y.set4(row * columns + column, x);
    }
};

struct matmul_gelu_slope_end {
    cuda_span x, y;
    int64_t columns;
    bool tanh, fours;

    __device__ __forceinline__ float of(float at, float sum) const {
        return matmul_gelu_stored(y, sum) * (tanh ? gelu_tanh_slope_f32(at) : gelu_erf_slope_f32(at));
    }
    __device__ __forceinline__ float before(int64_t, int64_t) const { return 0; }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        y.set(row * columns + column, of(x.get(row * columns + column), sum));
    }
    __device__ __forceinline__ void before4(int64_t, int64_t, float *) const {}
    __device__ __forceinline__ void end4(int64_t row, int64_t column, float sum[4]) const {
        float at[4];
        x.get4(row * columns + column, at);
#pragma unroll
        for (int k = 0; k < 4; k++) sum[k] = of(at[k], sum[k]);
        y.set4(row * columns + column, sum);
    }
};

/* `second`: the bias, or the x of the slope. */
template <class E>
static inline E matmul_gelu_end_of(const op_call *c, const cuda_span &second) {
    const matmul_gelu_attributes *t = (const matmul_gelu_attributes *)c->attributes;
    cuda_span y = cuda_out(c, 0);
    int64_t columns = shape_last(&c->out[0].shape);
    return { second, y, columns, t->tanh != 0, matmul_fours(columns, second, y) };
}

/* On tensor cores by groups of warps (matmul_gelu_group_cuda.cu), and in tensor memory. */
void matmul_gelu_group_run(const op_call *c);
void matmul_gelu_group_run_backward(const op_call *c);
void matmul_gelu_tmem_run(const op_call *c);
void matmul_gelu_tmem_run_backward(const op_call *c);
