/* Twins of the packed product that ends in GELU: the product rounds to the type of y, as one that stands
 * alone does, and GELU reads that. */
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
    bool tanh;

    __device__ __forceinline__ float before(int64_t, int64_t) const { return 0; }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        if (bias.data) sum += bias.get(column);
        float x = matmul_gelu_stored(y, sum);
        y.set(row * columns + column, tanh ? gelu_tanh_f32(x) : gelu_erf_f32(x));
    }
};

struct matmul_gelu_slope_end {
    cuda_span x, y;
    int64_t columns;
    bool tanh;

    __device__ __forceinline__ float before(int64_t, int64_t) const { return 0; }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        float at = x.get(row * columns + column);
        y.set(row * columns + column,
              matmul_gelu_stored(y, sum) * (tanh ? gelu_tanh_slope_f32(at) : gelu_erf_slope_f32(at)));
    }
};

template <class E>
static void matmul_gelu_product(const op_call *c, cuda_span second) {
    const matmul_gelu_attributes *t = (const matmul_gelu_attributes *)c->attributes;
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    matmul_sizes s;
    matmul_sizes_of(&a->shape, &b->shape, &t->product, &s);
    E end = { second, cuda_out(c, 0), s.columns, t->tanh != 0 };
    matmul_plain(matmul_matrix_of(a, t->product.ta), matmul_matrix_of(b, !t->product.tb), end,
                 { s.rows, s.columns, s.depth });
}

static void run(const op_call *c) { matmul_gelu_product<matmul_gelu_end>(c, cuda_in(c, MATMUL_GELU_BIAS)); }
static void run_backward(const op_call *c) {
    matmul_gelu_product<matmul_gelu_slope_end>(c, cuda_in(c, MATMUL_GELU_X));
}

CUDA_KERNELS(matmul_gelu_cuda, { "matmul_gelu_cuda_plain", cuda_accepts, NULL, run });
CUDA_KERNELS(matmul_gelu_backward_cuda,
             { "matmul_gelu_backward_cuda_plain", cuda_accepts, NULL, run_backward });
