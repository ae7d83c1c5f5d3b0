/* Twins of rmsnorm_cpu.c's fast kernels: the same formulas in the same order. Rows up to CUDA_KEPT wide are
 * read once; of wider ones a warp has one and reads it again. */
#include "ops/cuda_norms.h"

extern "C" {
#include "ops/rmsnorm/rmsnorm.h"
}

struct rmsnorm_row {
    cuda_span x, gamma, y;
    float *rstd;
    int64_t width;
    float eps, plus;

    __device__ __forceinline__ float gamma_of(int64_t j) const { return gamma.get(j) + plus; }
    __device__ __forceinline__ float beta_of(int64_t) const { return 0; }

    template <class X>
    __device__ __forceinline__ cuda_moments moments_of(int64_t row, const X &number) const {
        float squares = cuda_row_sum(width, [&](int64_t j) {
            float one = number(j);
            return one * one;
        });
        float s = 1.0f / sqrtf(squares / (float)width + eps);
        if (cuda_lane() == 0) rstd[row] = s;
        return { 0, s };
    }
    __device__ __forceinline__ cuda_moments measured(int64_t row, const float *kept) const {
        return moments_of(row, [&](int64_t j) { return kept[j]; });
    }
    __device__ __forceinline__ float value(float one, const cuda_moments &m, float by, float) const {
        return one * m.rstd * by;
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        cuda_moments m = moments_of(row, [&](int64_t j) { return x.get(at + j); });
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP)
            y.set(at + j, value(x.get(at + j), m, gamma_of(j), 0));
    }
};

static void run(const op_call *c) {
    const rmsnorm_attributes *a = (const rmsnorm_attributes *)c->attributes;
    const shape *x = &c->in[0].shape;
    rmsnorm_row f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), (float *)c->out[1].data,
                      shape_last(x), a->eps,        a->plus };
    if (f.width > CUDA_KEPT)
        cuda_rows(shape_rows(x), f);
    else
        cuda_norm_rows(shape_rows(x), f.width, f);
}

/* ---- the gradient ---- */

struct rmsnorm_slope {
    enum { SUMS = 1 };
    cuda_span x, gamma, dy, before, dx; /* before.data may be NULL */
    const float *rstd;
    int64_t width;
    float plus;

    /* dy n: what dgamma adds up */
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[1]) const {
        sum[0] += dy.get(row * width + column) * (x.get(row * width + column) * rstd[row]);
    }

    __device__ __forceinline__ float gamma_of(int64_t j) const { return gamma.get(j) + plus; }
    __device__ __forceinline__ cuda_moments moments_of(int64_t row) const { return { 0, rstd[row] }; }
    __device__ __forceinline__ float normal(float one, const cuda_moments &m) const { return one * m.rstd; }
    __device__ __forceinline__ cuda_averages averages(const float *u, const float *n, int64_t) const {
        return { 0, cuda_row_sum(width, [&](int64_t j) { return u[j] * n[j]; }) / (float)width };
    }
    __device__ __forceinline__ float slope(float u, float n, const cuda_moments &m,
                                           const cuda_averages &a) const {
        return m.rstd * (u - n * a.un);
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        cuda_moments m = moments_of(row);
        auto u_of = [&](int64_t j) { return dy.get(at + j) * gamma_of(j); };
        auto normal_of = [&](int64_t j) { return normal(x.get(at + j), m); };
        cuda_averages a = { 0, cuda_row_sum(width, [&](int64_t j) { return u_of(j) * normal_of(j); }) /
                                   (float)width };
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP) {
            float one = slope(u_of(j), normal_of(j), m, a);
            dx.set(at + j, before.data ? before.get(at + j) + one : one);
        }
    }
};

static void run_backward(const op_call *c) {
    const shape *x = &c->in[0].shape;
    int64_t rows = shape_rows(x), width = shape_last(x);
    rmsnorm_slope f = { cuda_in(c, 0),  cuda_in(c, 1),
                        cuda_in(c, 3),  cuda_in(c, 4),
                        cuda_out(c, 0), (const float *)c->in[2].data,
                        width,          ((const rmsnorm_backward_attributes *)c->attributes)->plus };
    cuda_tiles_sum to[] = { { (const float *)op_in(c, 5)->data, (float *)c->out[1].data } };
    cuda_norm_slopes(c, rows, width, f, to);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return cuda_norm_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 1);
}

CUDA_KERNELS(rmsnorm_cuda, { "rmsnorm_cuda_rows", cuda_accepts, NULL, run });
CUDA_KERNELS(rmsnorm_backward_cuda,
             { "rmsnorm_backward_cuda_rows", cuda_accepts, backward_scratch, run_backward });
