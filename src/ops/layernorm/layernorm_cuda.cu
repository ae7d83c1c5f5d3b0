/* Twins of layernorm_cpu.c's fast kernels: the same formulas in the same order. Rows up to CUDA_KEPT wide are
 * read once; of wider ones a warp has one and reads it again. */
#include "ops/cuda_norms.h"

extern "C" {
#include "ops/layernorm/layernorm.h"
}

struct layernorm_row {
    cuda_span x, gamma, beta, y; /* beta.data may be NULL */
    float *mean, *rstd;
    int64_t width;
    float eps;

    __device__ __forceinline__ float gamma_of(int64_t j) const { return gamma.get(j); }
    __device__ __forceinline__ float beta_of(int64_t j) const { return beta.data ? beta.get(j) : 0; }

    template <class X>
    __device__ __forceinline__ cuda_moments moments_of(int64_t row, const X &number) const {
        float average = cuda_row_sum(width, number) / (float)width;
        float variance = cuda_row_sum(width,
                                      [&](int64_t j) {
                                          float d = number(j) - average;
                                          return d * d;
                                      }) /
                         (float)width;
        float scale = 1.0f / sqrtf(variance + eps);
        if (cuda_lane() == 0) mean[row] = average, rstd[row] = scale;
        return { average, scale };
    }
    __device__ __forceinline__ cuda_moments measured(int64_t row, const float *kept) const {
        return moments_of(row, [&](int64_t j) { return kept[j]; });
    }
    __device__ __forceinline__ float value(float one, const cuda_moments &m, float by, float shift) const {
        float normal = (one - m.mean) * m.rstd * by;
        return beta.data ? normal + shift : normal;
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        cuda_moments m = moments_of(row, [&](int64_t j) { return x.get(at + j); });
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP)
            y.set(at + j, value(x.get(at + j), m, gamma_of(j), beta_of(j)));
    }
};

static void run(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    layernorm_row f = { cuda_in(c, 0),           cuda_in(c, 1),
                        cuda_in(c, 2),           cuda_out(c, 0),
                        (float *)c->out[1].data, (float *)c->out[2].data,
                        shape_last(&x->shape),   ((const layernorm_attributes *)c->attributes)->eps };
    if (f.width > CUDA_KEPT)
        cuda_rows(shape_rows(&x->shape), f);
    else
        cuda_norm_rows(shape_rows(&x->shape), f.width, f);
}

/* ---- the gradient ---- */

struct layernorm_slope {
    enum { SUMS = 2 };
    cuda_span x, gamma, dy, before, dx; /* before.data may be NULL */
    const float *mean, *rstd;
    int64_t width;

    /* dy n and dy: what dgamma and dbeta add up */
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[2]) const {
        float d = dy.get(row * width + column);
        sum[0] += d * ((x.get(row * width + column) - mean[row]) * rstd[row]);
        sum[1] += d;
    }

    __device__ __forceinline__ float gamma_of(int64_t j) const { return gamma.get(j); }
    __device__ __forceinline__ cuda_moments moments_of(int64_t row) const { return { mean[row], rstd[row] }; }
    __device__ __forceinline__ float normal(float one, const cuda_moments &m) const {
        return (one - m.mean) * m.rstd;
    }
    __device__ __forceinline__ cuda_averages averages(const float *u, const float *n, int64_t) const {
        return { cuda_row_sum(width, [&](int64_t j) { return u[j]; }) / (float)width,
                 cuda_row_sum(width, [&](int64_t j) { return u[j] * n[j]; }) / (float)width };
    }
    __device__ __forceinline__ float slope(float u, float n, const cuda_moments &m,
                                           const cuda_averages &a) const {
        return m.rstd * (u - a.u - n * a.un);
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        cuda_moments m = moments_of(row);
        auto u_of = [&](int64_t j) { return dy.get(at + j) * gamma.get(j); };
        auto normal_of = [&](int64_t j) { return normal(x.get(at + j), m); };
        cuda_averages a = { cuda_row_sum(width, u_of) / (float)width, cuda_row_sum(width, [&](int64_t j) {
                                                                          return u_of(j) * normal_of(j);
                                                                      }) / (float)width };
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP) {
            float one = slope(u_of(j), normal_of(j), m, a);
            dx.set(at + j, before.data ? before.get(at + j) + one : one);
        }
    }
};

static void run_backward(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    layernorm_slope f = { cuda_in(c, 0),
                          cuda_in(c, 1),
                          cuda_in(c, 4),
                          cuda_in(c, 5),
                          cuda_out(c, 0),
                          (const float *)c->in[2].data,
                          (const float *)c->in[3].data,
                          width };
    cuda_tiles_sum to[] = { { (const float *)op_in(c, 6)->data, (float *)c->out[1].data },
                            { (const float *)op_in(c, 7)->data, (float *)c->out[2].data } };
    cuda_norm_slopes(c, rows, width, f, to);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return cuda_norm_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 2);
}

CUDA_KERNELS(layernorm_cuda, { "layernorm_cuda_rows", cuda_accepts, NULL, run });
CUDA_KERNELS(layernorm_backward_cuda,
             { "layernorm_backward_cuda_rows", cuda_accepts, backward_scratch, run_backward });
