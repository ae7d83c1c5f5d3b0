/* Batch norm in f32, where the CPU's reference has doubles: sums over all rows as elsewhere in tiles
 * (ops/cuda_tiles.h), in passes of their own. */
#include "ops/cuda_tiles.h"

extern "C" {
#include "base/units.h"
#include "ops/batch_norm/batch_norm.h"
}

static int64_t rows_of(const op_call *c) { return shape_rows(&c->in[0].shape); }
static int64_t width_of(const op_call *c) { return shape_last(&c->in[0].shape); }
static int64_t elements_of(const op_call *c) { return shape_elements(&c->in[0].shape); }
static float *floats(const op_arg *x) { return (float *)x->data; }

/* ---- forward ---- */

struct batch_norm_numbers {
    cuda_span x, gamma, beta, y;
    float *mean, *rstd; /* sums at first */
    int64_t rows, width;
    float eps;
};

struct batch_norm_sum {
    batch_norm_numbers f;
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[1]) const {
        sum[0] += f.x.get(row * f.width + column);
    }
    __device__ __forceinline__ void operator()(int64_t i) const { f.mean[i] = f.mean[i] / (float)f.rows; }
};

struct batch_norm_squares {
    batch_norm_numbers f;
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[1]) const {
        float away = f.x.get(row * f.width + column) - f.mean[column];
        sum[0] += away * away;
    }
    __device__ __forceinline__ void operator()(int64_t i) const {
        f.rstd[i] = 1.0f / sqrtf(f.rstd[i] / (float)f.rows + f.eps);
    }
};

struct batch_norm_apply_to {
    batch_norm_numbers f;
    __device__ __forceinline__ void operator()(int64_t at) const {
        int64_t i = cuda_split(at, f.width).column;
        f.y.set(at, (f.x.get(at) - f.mean[i]) * f.rstd[i] * f.gamma.get(i) + f.beta.get(i));
    }
};

static uint64_t scratch(const op_call *c, int) { return cuda_tiles_scratch(rows_of(c), width_of(c), 1); }

static void run(const op_call *c) {
    float *mean = floats(&c->out[1]), *rstd = floats(&c->out[2]);
    int64_t rows = rows_of(c), width = width_of(c);
    batch_norm_numbers f = {
        cuda_in(c, 0),  cuda_in(c, 1), cuda_in(c, 2),
        cuda_out(c, 0), mean,          rstd,
        rows,           width,         ((const batch_norm_attributes *)c->attributes)->eps
    };
    cuda_tiles_sum sum[] = { { NULL, mean } }, squares[] = { { NULL, rstd } };
    cuda_tiles(c, batch_norm_sum{ f }, rows, width, sum);
    cuda_each(width, batch_norm_sum{ f });
    cuda_tiles(c, batch_norm_squares{ f }, rows, width, squares);
    cuda_each(width, batch_norm_squares{ f });
    cuda_each(elements_of(c), batch_norm_apply_to{ f });
}

/* ---- the gradient ---- */

struct batch_norm_slopes {
    cuda_span x, gamma, mean, rstd, dy, dx;
    const float *dot, *sum; /* (width) of dy n and of dy */
    int64_t rows, width;

    __device__ __forceinline__ float normal(int64_t at, int64_t i) const {
        return (x.get(at) - mean.get(i)) * rstd.get(i);
    }
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sums[2]) const {
        float d = dy.get(row * width + column);
        sums[0] += d * normal(row * width + column, column);
        sums[1] += d;
    }
    __device__ __forceinline__ void operator()(int64_t at) const {
        int64_t i = cuda_split(at, width).column;
        float d = dy.get(at) - (sum[i] + normal(at, i) * dot[i]) / (float)rows;
        dx.set(at, gamma.get(i) * rstd.get(i) * d);
    }
};

struct batch_norm_gather {
    const float *sum;
    cuda_span before, out; /* before.data may be NULL */
    __device__ __forceinline__ void operator()(int64_t i) const {
        out.set(i, before.data ? before.get(i) + sum[i] : sum[i]);
    }
};

static uint64_t tiles_bytes(const op_call *c) {
    return units_align(cuda_tiles_scratch(rows_of(c), width_of(c), 2), 64);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return tiles_bytes(c) + 2 * (uint64_t)width_of(c) * sizeof(float);
}

static void run_backward(const op_call *c) {
    int64_t rows = rows_of(c), width = width_of(c);
    float *dot = (float *)((char *)c->scratch + tiles_bytes(c)), *sum = dot + width;
    batch_norm_slopes f = { cuda_in(c, 0),  cuda_in(c, 1), cuda_in(c, 2), cuda_in(c, 3), cuda_in(c, 4),
                            cuda_out(c, 0), dot,           sum,           rows,          width };
    cuda_tiles_sum to[] = { { NULL, dot }, { NULL, sum } };
    cuda_tiles(c, f, rows, width, to); /* before dx, which may live in x or dy */
    cuda_each(elements_of(c), f);
    cuda_each(width, batch_norm_gather{ dot, cuda_in(c, 5), cuda_out(c, 1) });
    cuda_each(width, batch_norm_gather{ sum, cuda_in(c, 6), cuda_out(c, 2) });
}

/* ---- averages that run along: a number for each channel, in double as by the CPU ---- */

struct batch_norm_run_on {
    cuda_span running_mean, running_variance, mean, rstd, mean_out, variance_out;
    double rows, eps, share;

    __device__ __forceinline__ void operator()(int64_t i) const {
        double by = (double)rstd.get(i), variance = 1 / (by * by) - eps;
        if (rows > 1) variance *= rows / (rows - 1);
        mean_out.set(i, (float)((1 - share) * (double)running_mean.get(i) + share * (double)mean.get(i)));
        variance_out.set(i, (float)((1 - share) * (double)running_variance.get(i) + share * variance));
    }
};

static void run_running(const op_call *c) {
    const batch_norm_running_attributes *a = (const batch_norm_running_attributes *)c->attributes;
    batch_norm_run_on f = { cuda_in(c, 0),   cuda_in(c, 1),  cuda_in(c, 2),
                            cuda_in(c, 3),   cuda_out(c, 0), cuda_out(c, 1),
                            (double)a->rows, (double)a->eps, (double)a->momentum };
    cuda_each(elements_of(c), f);
}

/* ---- with them ---- */

struct batch_norm_fixed_to {
    cuda_span x, gamma, beta, mean, variance, y;
    int64_t width;
    float eps;

    __device__ __forceinline__ void operator()(int64_t at) const {
        int64_t i = cuda_split(at, width).column;
        float rstd = 1.0f / sqrtf(variance.get(i) + eps);
        y.set(at, (x.get(at) - mean.get(i)) * rstd * gamma.get(i) + beta.get(i));
    }
};

static void run_fixed(const op_call *c) {
    batch_norm_fixed_to f = { cuda_in(c, 0), cuda_in(c, 1),
                              cuda_in(c, 2), cuda_in(c, 3),
                              cuda_in(c, 4), cuda_out(c, 0),
                              width_of(c),   ((const batch_norm_attributes *)c->attributes)->eps };
    cuda_each(elements_of(c), f);
}

CUDA_KERNELS(batch_norm_cuda, { "batch_norm_cuda_tiles", cuda_accepts, scratch, run });
CUDA_KERNELS(batch_norm_backward_cuda,
             { "batch_norm_backward_cuda_tiles", cuda_accepts, backward_scratch, run_backward });
CUDA_KERNELS(batch_norm_running_cuda, { "batch_norm_running_cuda_map", cuda_accepts, NULL, run_running });
CUDA_KERNELS(batch_norm_fixed_cuda, { "batch_norm_fixed_cuda_map", cuda_accepts, NULL, run_fixed });
