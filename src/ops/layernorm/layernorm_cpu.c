#include <math.h>

#include "ops/fast.h"
#include "ops/layernorm/layernorm.h"
#include "ops/reference.h"
#include "ops/row_tiles.h"

static void layernorm_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gamma = op_in(c, 1), *beta = op_in(c, 2);
    const op_arg *y = &c->out[0], *mean = &c->out[1], *rstd = &c->out[2];
    const layernorm_attributes *a = c->attributes;
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < width; j++) sum += reference_get(x, r * width + j);
        double m = sum / (double)width;
        for (int64_t j = 0; j < width; j++) {
            double d = reference_get(x, r * width + j) - m;
            squares += d * d;
        }
        double s = 1 / sqrt(squares / (double)width + (double)a->eps);
        for (int64_t j = 0; j < width; j++) {
            double normal = (reference_get(x, r * width + j) - m) * s;
            double shift = beta->data ? reference_get(beta, j) : 0;
            reference_set(y, r * width + j, normal * reference_get(gamma, j) + shift);
        }
        reference_set(mean, r, m);
        reference_set(rstd, r, s);
    }
}

VECTOR_INLINE float row_mean(const float *x, int64_t n) {
    float lane[VECTOR_LANES] = { 0 }, rest = 0;
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES)
        for (int j = 0; j < VECTOR_LANES; j++) lane[j] += x[i + j];
    for (; i < n; i++) rest += x[i];
    return vector_lanes_sum(lane, rest) / (float)n;
}

VECTOR_INLINE float row_variance(const float *x, int64_t n, float mean) {
    float lane[VECTOR_LANES] = { 0 }, rest = 0;
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES)
        for (int j = 0; j < VECTOR_LANES; j++) lane[j] += (x[i + j] - mean) * (x[i + j] - mean);
    for (; i < n; i++) rest += (x[i] - mean) * (x[i] - mean);
    return vector_lanes_sum(lane, rest) / (float)n;
}

VECTOR_CLONES static void layernorm_rows(const op_call *c, int64_t first, int64_t last) {
    const layernorm_attributes *a = c->attributes;
    const float *gamma = c->in[1].data, *beta = op_in(c, 2)->data;
    float *mean = c->out[1].data, *rstd = c->out[2].data;
    int64_t width = shape_last(&c->in[0].shape);
    for (int64_t r = first; r < last; r++) {
        const float *x = (const float *)c->in[0].data + r * width;
        float *y = (float *)c->out[0].data + r * width;
        float m = row_mean(x, width), s = 1.0f / sqrtf(row_variance(x, width, m) + a->eps);
        if (beta) {
#pragma GCC ivdep
            for (int64_t j = 0; j < width; j++) y[j] = (x[j] - m) * s * gamma[j] + beta[j];
        } else {
#pragma GCC ivdep
            for (int64_t j = 0; j < width; j++) y[j] = (x[j] - m) * s * gamma[j];
        }
        mean[r] = m;
        rstd[r] = s;
    }
}

static void layernorm_fast(const op_call *c) {
    const shape *x = &c->in[0].shape;
    fast_for(c, shape_rows(x), fast_rows(shape_last(x)), layernorm_rows);
}

const op_kernel layernorm_cpu[] = { { "layernorm_cpu_rows", fast_accepts, NULL, layernorm_fast },
                                    { "layernorm_reference", NULL, NULL, layernorm_reference },
                                    { 0 } };

/* ---- the gradient ----
 * With n = (x - mean) rstd and u = dy gamma: dx = rstd (u - average(u) - n average(u n)),
 * dgamma = sum of dy n, dbeta = sum of dy. */

/* dgamma or dbeta: tile sums into f32, as everywhere. */
static void sum_parameter_reference(const op_call *c, bool scaled) {
    const op_arg *x = op_in(c, 0), *mean = op_in(c, 2), *rstd = op_in(c, 3), *dy = op_in(c, 4);
    const op_arg *accumulator = op_in(c, scaled ? 6 : 7), *out = &c->out[scaled ? 1 : 2];
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    for (int64_t j = 0; j < width; j++) {
        reference_set(out, j, accumulator->data ? reference_get(accumulator, j) : 0);
        for (int64_t tile = 0; tile < rows; tile += THREADS_ROW_TILE) {
            double sum = 0;
            for (int64_t r = tile; r < rows && r < tile + THREADS_ROW_TILE; r++) {
                double normal =
                    (reference_get(x, r * width + j) - reference_get(mean, r)) * reference_get(rstd, r);
                sum += reference_get(dy, r * width + j) * (scaled ? normal : 1);
            }
            reference_set(out, j, reference_get(out, j) + sum);
        }
    }
}

static void layernorm_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gamma = op_in(c, 1), *mean = op_in(c, 2), *rstd = op_in(c, 3),
                 *dy = op_in(c, 4);
    const op_arg *accumulator = op_in(c, 5), *dx = &c->out[0];
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    sum_parameter_reference(c, true); /* before dx, which may live in x or dy */
    sum_parameter_reference(c, false);
    for (int64_t r = 0; r < rows; r++) {
        double m = reference_get(mean, r), s = reference_get(rstd, r), sum_u = 0, sum_un = 0;
        for (int64_t j = 0; j < width; j++) {
            double u = reference_get(dy, r * width + j) * reference_get(gamma, j);
            sum_u += u;
            sum_un += u * (reference_get(x, r * width + j) - m) * s;
        }
        for (int64_t j = 0; j < width; j++) {
            int64_t i = r * width + j;
            double u = reference_get(dy, i) * reference_get(gamma, j), normal = (reference_get(x, i) - m) * s;
            double d = s * (u - sum_u / (double)width - normal * sum_un / (double)width);
            reference_set(dx, i, (accumulator->data ? reference_get(accumulator, i) : 0) + d);
        }
    }
}

typedef struct {
    float mean, rstd;
} row_moments;

/* average(u) and average(u n). */
VECTOR_INLINE void row_averages(const float *x, const float *dy, const float *gamma, int64_t n, row_moments m,
                                float average[2]) {
    float lane_u[VECTOR_LANES] = { 0 }, lane_un[VECTOR_LANES] = { 0 }, rest_u = 0, rest_un = 0;
    int64_t i = 0;
    for (; i + VECTOR_LANES <= n; i += VECTOR_LANES)
        for (int j = 0; j < VECTOR_LANES; j++) {
            float u = dy[i + j] * gamma[i + j];
            lane_u[j] += u;
            lane_un[j] += u * ((x[i + j] - m.mean) * m.rstd);
        }
    for (; i < n; i++) {
        float u = dy[i] * gamma[i];
        rest_u += u;
        rest_un += u * ((x[i] - m.mean) * m.rstd);
    }
    average[0] = vector_lanes_sum(lane_u, rest_u) / (float)n;
    average[1] = vector_lanes_sum(lane_un, rest_un) / (float)n;
}

/* Everything of a row while it is in the cache; dx last, as it may take the place of x or dy. */
VECTOR_CLONES static void backward_rows(const op_call *c, int64_t first, int64_t last, float *sums) {
    const float *gamma = c->in[1].data, *mean = c->in[2].data, *rstd = c->in[3].data;
    int64_t width = shape_last(&c->in[0].shape);
    float *dgamma = sums, *dbeta = sums + width;
    for (int64_t r = first; r < last; r++) {
        const float *x = (const float *)c->in[0].data + r * width,
                    *dy = (const float *)c->in[4].data + r * width;
        const float *before = op_in(c, 5)->data ? (const float *)c->in[5].data + r * width : NULL;
        float *dx = (float *)c->out[0].data + r * width;
        float m = mean[r], s = rstd[r], average[2];
        row_averages(x, dy, gamma, width, (row_moments){ m, s }, average);
        for (int64_t j = 0; j < width; j++) {
            dgamma[j] += dy[j] * ((x[j] - m) * s);
            dbeta[j] += dy[j];
        }
        if (before) {
#pragma GCC ivdep
            for (int64_t j = 0; j < width; j++)
                dx[j] = before[j] + s * (dy[j] * gamma[j] - average[0] - (x[j] - m) * s * average[1]);
        } else {
#pragma GCC ivdep
            for (int64_t j = 0; j < width; j++)
                dx[j] = s * (dy[j] * gamma[j] - average[0] - (x[j] - m) * s * average[1]);
        }
    }
}

static void layernorm_backward_fast(const op_call *c) {
    row_tiles_run(
        &(row_tiles){ .call = c,
                      .rows = shape_rows(&c->in[0].shape),
                      .width = shape_last(&c->in[0].shape),
                      .count = 2,
                      .sum = { { op_in(c, 6)->data, c->out[1].data }, { op_in(c, 7)->data, c->out[2].data } },
                      .body = backward_rows });
}

static uint64_t layernorm_backward_scratch(const op_call *c, int threads) {
    (void)threads;
    return row_tiles_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 2);
}

const op_kernel layernorm_backward_cpu[] = {
    { "layernorm_backward_cpu_rows", fast_accepts, layernorm_backward_scratch, layernorm_backward_fast },
    { "layernorm_backward_reference", NULL, NULL, layernorm_backward_reference },
    { 0 }
};
