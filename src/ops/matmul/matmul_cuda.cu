#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/matmul/matmul.h"
}

struct matmul_end {
    cuda_span bias, residual, accumulator, y; /* the first three may be absent */
    int64_t columns;

    __device__ __forceinline__ float before(int64_t row, int64_t column) const {
        return accumulator.data ? accumulator.get(row * columns + column) : 0;
    }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        if (bias.data) sum += bias.get(column);
        if (residual.data) sum += residual.get(row * columns + column);
        y.set(row * columns + column, sum);
    }
};

static void run(const op_call *c) {
    const matmul_attributes *t = (const matmul_attributes *)c->attributes;
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    matmul_sizes s;
    matmul_sizes_of(&a->shape, &b->shape, t, &s);
    matmul_end end = { cuda_in(c, MATMUL_BIAS), cuda_in(c, MATMUL_RESIDUAL), cuda_in(c, MATMUL_ACCUMULATOR),
                       cuda_out(c, 0), s.columns };
    matmul_plain(matmul_matrix_of(a, t->ta), matmul_matrix_of(b, !t->tb), end,
                 { s.rows, s.columns, s.depth });
}

CUDA_KERNELS(matmul_cuda, { "matmul_cuda_plain", cuda_accepts, NULL, run });
