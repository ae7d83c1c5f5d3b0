/* Twins of rmsnorm_cpu.c's fast kernels: the same formulas in the same order, a warp to a row. */
#include "ops/cuda_rows.h"
#include "ops/cuda_tiles.h"

extern "C" {
#include "ops/rmsnorm/rmsnorm.h"
}

struct rmsnorm_row {
    cuda_span x, gamma, y;
    float *rstd;
    int64_t width;
    float eps, plus;

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        float squares = cuda_row_sum(width, [&](int64_t j) {
            float one = x.get(at + j);
            return one * one;
        });
        float s = 1.0f / sqrtf(squares / (float)width + eps);
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP)
            y.set(at + j, x.get(at + j) * s * (gamma.get(j) + plus));
        if (cuda_lane() == 0) rstd[row] = s;
    }
};

static void run(const op_call *c) {
    const rmsnorm_attributes *a = (const rmsnorm_attributes *)c->attributes;
    const shape *x = &c->in[0].shape;
    rmsnorm_row f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), (float *)c->out[1].data,
                      shape_last(x), a->eps,        a->plus };
    cuda_rows(shape_rows(x), f);
}

/* ---- the gradient ---- */

struct rmsnorm_slope {
    cuda_span x, gamma, dy, before, dx; /* before.data may be NULL */
    const float *rstd;
    int64_t width;
    float plus;

    /* dy n: what dgamma adds up */
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[1]) const {
        sum[0] += dy.get(row * width + column) * (x.get(row * width + column) * rstd[row]);
    }

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * width;
        float s = rstd[row];
        float average = cuda_row_sum(width,
                                     [&](int64_t j) {
                                         return dy.get(at + j) * (gamma.get(j) + plus) * (x.get(at + j) * s);
                                     }) /
                        (float)width;
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP) {
            float slope = s * (dy.get(at + j) * (gamma.get(j) + plus) - x.get(at + j) * s * average);
            dx.set(at + j, before.data ? before.get(at + j) + slope : slope);
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
    cuda_tiles(c, f, rows, width, to); /* before dx, which may live in x or dy */
    cuda_rows(rows, f);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return cuda_tiles_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 1);
}

CUDA_KERNELS(rmsnorm_cuda, { "rmsnorm_cuda_rows", cuda_accepts, NULL, run });
CUDA_KERNELS(rmsnorm_backward_cuda,
             { "rmsnorm_backward_cuda_rows", cuda_accepts, backward_scratch, run_backward });
