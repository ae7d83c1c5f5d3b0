/* Twins of layernorm_cpu.c's fast kernels: the same formulas in the same order, a warp to a row. */
#include "ops/cuda_rows.h"
#include "ops/cuda_tiles.h"

extern "C" {
#include "ops/layernorm/layernorm.h"
}

struct layernorm_row {
    cuda_span x, gamma, beta, y; /* beta.data may be NULL */
    float *mean, *rstd;
    int64_t width;
    float eps;

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        float average = cuda_row_sum(width, [&](int64_t j) { return x.get(at + j); }) / (float)width;
        float variance = cuda_row_sum(width,
                                      [&](int64_t j) {
                                          float d = x.get(at + j) - average;
                                          return d * d;
                                      }) /
                         (float)width;
        float scale = 1.0f / sqrtf(variance + eps);
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP) {
            float normal = (x.get(at + j) - average) * scale * gamma.get(j);
            y.set(at + j, beta.data ? normal + beta.get(j) : normal);
        }
        if (cuda_lane() == 0) mean[row] = average, rstd[row] = scale;
    }
};

static void run(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    layernorm_row f = { cuda_in(c, 0),           cuda_in(c, 1),
                        cuda_in(c, 2),           cuda_out(c, 0),
                        (float *)c->out[1].data, (float *)c->out[2].data,
                        shape_last(&x->shape),   ((const layernorm_attributes *)c->attributes)->eps };
    cuda_rows(shape_rows(&x->shape), f);
}

/* ---- the gradient ---- */

struct layernorm_slope {
    cuda_span x, gamma, dy, before, dx; /* before.data may be NULL */
    const float *mean, *rstd;
    int64_t width;

    /* dy n and dy: what dgamma and dbeta add up */
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[2]) const {
        float d = dy.get(row * width + column);
        sum[0] += d * ((x.get(row * width + column) - mean[row]) * rstd[row]);
        sum[1] += d;
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        float m = mean[row], s = rstd[row];
        float u =
            cuda_row_sum(width, [&](int64_t j) { return dy.get(at + j) * gamma.get(j); }) / (float)width;
        float un =
            cuda_row_sum(
                width, [&](int64_t j) { return dy.get(at + j) * gamma.get(j) * ((x.get(at + j) - m) * s); }) /
            (float)width;
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP) {
            float normal = (x.get(at + j) - m) * s;
            float slope = s * (dy.get(at + j) * gamma.get(j) - u - normal * un);
            dx.set(at + j, before.data ? before.get(at + j) + slope : slope);
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
    cuda_tiles(c, f, rows, width, to); /* before dx, which may live in x or dy */
    cuda_rows(rows, f);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return cuda_tiles_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 2);
}

CUDA_KERNELS(layernorm_cuda, { "layernorm_cuda_rows", cuda_accepts, NULL, run });
CUDA_KERNELS(layernorm_backward_cuda,
             { "layernorm_backward_cuda_rows", cuda_accepts, backward_scratch, run_backward });
