#include <math.h>

#include "base/units.h"
#include "ops/fast.h"
#include "ops/layernorm/layernorm.h"
#include "ops/reference.h"
#include "ops/row_tiles.h"
#include "ops/widened.h"

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

VECTOR_INLINE float row_mean(const void *x, int64_t n, const dtype type) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, fast_fetch(x, n + i + j, type), /* half of the next row */
                      lane[j] += fast_get(x, i + j, type););
    return vector_lanes_sum(lane) / (float)n;
}

VECTOR_INLINE float row_variance(const void *x, int64_t n, float mean, const dtype type) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, fast_fetch(x, n + i + j + VECTOR_LINE, type), /* the other half */
                      float d = fast_get(x, i + j, type) - mean;
                      lane[j] += d * d;);
    return vector_lanes_sum(lane) / (float)n;
}

/* What is the same for a row. */
typedef struct {
    const float *gamma, *beta; /* (C); beta may be NULL */
    float mean, rstd;
} row_norm;

VECTOR_INLINE void norm_range(const row_norm *r, const void *x, void *y, int64_t n, const dtype from,
                              const dtype to) {
    const float *gamma = r->gamma, *beta = r->beta;
    float mean = r->mean, rstd = r->rstd;
    if (beta) {
#pragma GCC ivdep
        for (int64_t j = 0; j < n; j++)
            fast_put(y, j, (fast_get(x, j, from) - mean) * rstd * gamma[j] + beta[j], to);
    } else {
#pragma GCC ivdep
        for (int64_t j = 0; j < n; j++) fast_put(y, j, (fast_get(x, j, from) - mean) * rstd * gamma[j], to);
    }
}

VECTOR_INLINE void norm_row_past(const row_norm *r, const void *x, void *y, int64_t n, const dtype from,
                                 const dtype to) {
    union {
        float wide[FAST_PART];
        uint16_t half[FAST_PART];
    } part;
    for (int64_t j = 0; j < n; j += FAST_PART) {
        int64_t count = n - j < FAST_PART ? n - j : FAST_PART;
        row_norm here = { r->gamma + j, r->beta ? r->beta + j : NULL, r->mean, r->rstd };
        norm_range(&here, fast_at(x, j, from), &part, count, from, to);
        if (to == DTYPE_F32)
            fast_store_past((float *)y + j, part.wide, count);
        else
            fast_store_past_halves((uint16_t *)y + j, part.half, count);
    }
}

VECTOR_INLINE void norm_rows(const op_call *c, int64_t first, int64_t last, const dtype from,
                             const dtype to) {
    const layernorm_attributes *a = c->attributes;
    row_norm norm = { .gamma = c->in[1].data, .beta = op_in(c, 2)->data };
    float *mean = c->out[1].data, *rstd = c->out[2].data;
    int64_t width = shape_last(&c->in[0].shape);
    bool past = fast_past_caches(c);
    for (int64_t r = first; r < last; r++) {
        const void *x = fast_at(c->in[0].data, r * width, from);
        void *y = (char *)c->out[0].data + r * width * fast_bytes(to);
        mean[r] = norm.mean = row_mean(x, width, from);
        rstd[r] = norm.rstd = 1.0f / sqrtf(row_variance(x, width, norm.mean, from) + a->eps);
        if (past)
            norm_row_past(&norm, x, y, width, from, to);
        else
            norm_range(&norm, x, y, width, from, to);
    }
    if (past) fast_stored_past();
}

FAST_TYPED(layernorm_rows, norm_rows, DTYPE_F32, DTYPE_F32)
FAST_TYPED(layernorm_bf16_rows, norm_rows, DTYPE_BF16, DTYPE_BF16)
FAST_TYPED(layernorm_to_bf16_rows, norm_rows, DTYPE_F32, DTYPE_BF16)

static void run_rows(const op_call *c, fast_body body) {
    const shape *x = &c->in[0].shape;
    fast_for(c, shape_rows(x), fast_rows(shape_last(x)), body);
}

static void layernorm_fast(const op_call *c) { run_rows(c, layernorm_rows); }

static bool accepts_bf16(const op_call *c) {
    return fast_is_of(c, DTYPE_BF16, DTYPE_BF16) || fast_is_of(c, DTYPE_F32, DTYPE_BF16);
}

static void layernorm_bf16(const op_call *c) {
    run_rows(c, c->in[0].dtype == DTYPE_F32 ? layernorm_to_bf16_rows : layernorm_bf16_rows);
}

static widened by_rows(const op_call *c) {
    return (widened){ .rows = shape_rows(&c->in[0].shape), .whole_in = 1u << 1 | 1u << 2 };
}

static uint64_t layernorm_widened_scratch(const op_call *c, int threads) {
    widened how = by_rows(c);
    return widened_scratch(c, &how, threads);
}

static void layernorm_widened(const op_call *c) {
    widened how = by_rows(c);
    widened_run(c, &how, layernorm_rows);
}

const op_kernel layernorm_cpu[] = { { "layernorm_cpu_rows", fast_accepts, NULL, layernorm_fast },
                                    { "layernorm_cpu_bf16", accepts_bf16, NULL, layernorm_bf16 },
                                    { "layernorm_cpu_widened", widened_accepts, layernorm_widened_scratch,
                                      layernorm_widened },
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

/* Two rows and all that is the same for every element of one. x, `before` and dx are of one type; `dx` may be
 * x, dy or `before`. The types are constants wherever this is inlined. */
typedef struct {
    dtype of_x, of_dy;
    const void *x[2], *dy[2], *before[2]; /* (C); before: of all rows or of none */
    void *dx[2];
    float mean[2], rstd[2], average[2][2];
    const float *gamma;
    float *dgamma, *dbeta;
    int64_t width;
} row_pair;

/* average(u) and average(u n) of row r. */
VECTOR_INLINE void row_averages(row_pair *g, const int r) {
    const void *x = g->x[r], *dy = g->dy[r];
    const float *gamma = g->gamma, mean = g->mean[r], rstd = g->rstd[r];
    const dtype of_x = g->of_x, of_dy = g->of_dy;
    int64_t n = g->width;
    float lane_u[VECTOR_LANES], lane_un[VECTOR_LANES];
    vector_lanes_clear(lane_u), vector_lanes_clear(lane_un);
    VECTOR_OVER_LANES(
        n, i, j,
        (fast_fetch(x, 2 * n + i + j, of_x), fast_fetch(dy, 2 * n + i + j, of_dy)), /* of the next pair */
        float u = fast_get(dy, i + j, of_dy) * gamma[i + j];
        lane_u[j] += u; lane_un[j] += u * ((fast_get(x, i + j, of_x) - mean) * rstd););
    g->average[r][0] = vector_lanes_sum(lane_u) / (float)n;
    g->average[r][1] = vector_lanes_sum(lane_un) / (float)n;
}

typedef struct {
    float mean, rstd, u, un;
} row_scalars;

VECTOR_INLINE float slope_of(row_scalars s, float d, float gamma, float normal) {
    return s.rstd * (d * gamma - s.u - normal * s.un);
}

VECTOR_INLINE float from_x(const row_pair *g, const void *x, int64_t i) { return fast_get(x, i, g->of_x); }

/* VECTOR_STEP or fewer elements, `n`, from j: the sums of parameters take the rows one after the other.
 * Their part of dx goes to `dx`. */
VECTOR_INLINE void pair_range(const row_pair *g, const int rows, const bool adds, int64_t j, const int n,
                              void *const dx[2]) {
    const int second = rows - 1;
    const dtype of_x = g->of_x, of_dy = g->of_dy;
    const void *x0 = fast_at(g->x[0], j, of_x), *x1 = fast_at(g->x[second], j, of_x),
               *dy0 = fast_at(g->dy[0], j, of_dy), *dy1 = fast_at(g->dy[second], j, of_dy);
    const void *before0 = adds ? fast_at(g->before[0], j, of_x) : NULL,
               *before1 = adds ? fast_at(g->before[second], j, of_x) : NULL;
    const float *gamma = g->gamma + j;
    float *dgamma = g->dgamma + j, *dbeta = g->dbeta + j;
    void *to0 = dx[0], *to1 = dx[second];
    const row_scalars s0 = { g->mean[0], g->rstd[0], g->average[0][0], g->average[0][1] };
    const row_scalars s1 = { g->mean[second], g->rstd[second], g->average[second][0], g->average[second][1] };
#pragma GCC ivdep
    for (int k = 0; k < n; k++) {
        float d0 = fast_get(dy0, k, of_dy), normal0 = (fast_get(x0, k, of_x) - s0.mean) * s0.rstd;
        float gain = dgamma[k] + d0 * normal0, shift = dbeta[k] + d0;
        float slope0 = slope_of(s0, d0, gamma[k], normal0);
        fast_put(to0, k, adds ? from_x(g, before0, k) + slope0 : slope0, of_x);
        if (rows == 2) {
            float d1 = fast_get(dy1, k, of_dy), normal1 = (fast_get(x1, k, of_x) - s1.mean) * s1.rstd,
                  slope1 = slope_of(s1, d1, gamma[k], normal1);
            gain += d1 * normal1;
            shift += d1;
            fast_put(to1, k, adds ? from_x(g, before1, k) + slope1 : slope1, of_x);
        }
        dgamma[k] = gain;
        dbeta[k] = shift;
    }
}

VECTOR_INLINE void *place_of(void *x, int64_t i, const dtype type) {
    return (char *)x + i * fast_bytes(type);
}

/* Columns first .. last-1; dx to `dx`, which is where `first` goes. */
VECTOR_INLINE void pair_columns(const row_pair *g, const int rows, const bool adds, int64_t first,
                                int64_t last, void *const dx[2]) {
    int64_t i = first;
    for (; i + VECTOR_STEP <= last; i += VECTOR_STEP) {
        for (int r = 0; r < rows; r++) { /* the other half */
            fast_fetch(g->x[r], rows * g->width + i + VECTOR_LINE, g->of_x);
            fast_fetch(g->dy[r], rows * g->width + i + VECTOR_LINE, g->of_dy);
        }
        void *const to[2] = { place_of(dx[0], i - first, g->of_x), place_of(dx[1], i - first, g->of_x) };
        pair_range(g, rows, adds, i, VECTOR_STEP, to);
    }
    for (; i < last; i++) {
        void *const to[2] = { place_of(dx[0], i - first, g->of_x), place_of(dx[1], i - first, g->of_x) };
        pair_range(g, rows, adds, i, 1, to);
    }
}

VECTOR_INLINE void pair_gradient(const row_pair *g, const int rows, bool past) {
    int64_t width = g->width;
    union {
        float wide[FAST_PART];
        uint16_t half[FAST_PART];
    } part[2];
    for (int64_t first = 0; first < width; first += FAST_PART) {
        int64_t last = first + FAST_PART < width ? first + FAST_PART : width;
        void *dx[2] = { place_of(g->dx[0], first, g->of_x), place_of(g->dx[rows - 1], first, g->of_x) };
        if (past) dx[0] = &part[0], dx[1] = &part[1];
        if (g->before[0])
            pair_columns(g, rows, true, first, last, dx);
        else
            pair_columns(g, rows, false, first, last, dx);
        for (int r = 0; past && r < rows; r++)
            if (g->of_x == DTYPE_F32)
                fast_store_past((float *)g->dx[r] + first, part[r].wide, last - first);
            else
                fast_store_past_halves((uint16_t *)g->dx[r] + first, part[r].half, last - first);
    }
}

VECTOR_INLINE void open_pair(const op_call *c, int64_t row, const int rows, row_pair *g) {
    const float *mean = c->in[2].data, *rstd = c->in[3].data;
    const void *before = op_in(c, 5)->data;
    int64_t width = g->width;
    for (int r = 0; r < rows; r++, row++) {
        g->x[r] = fast_at(c->in[0].data, row * width, g->of_x);
        g->dy[r] = fast_at(c->in[4].data, row * width, g->of_dy);
        g->before[r] = before ? fast_at(before, row * width, g->of_x) : NULL;
        g->dx[r] = place_of(c->out[0].data, row * width, g->of_x);
        g->mean[r] = mean[row], g->rstd[r] = rstd[row];
        row_averages(g, r);
    }
}

/* Everything of two rows while they are in the cache; dx last, as it may take the place of x or dy. */
VECTOR_INLINE void backward_typed(const op_call *c, row_pair g, int64_t first, int64_t last, float *sums) {
    int64_t row = first;
    bool past = fast_past_caches(c);
    g.width = shape_last(&c->in[0].shape), g.gamma = c->in[1].data;
    g.dgamma = sums, g.dbeta = sums + g.width;
    for (; row + 2 <= last; row += 2) {
        open_pair(c, row, 2, &g);
        pair_gradient(&g, 2, past);
    }
    for (; row < last; row++) {
        open_pair(c, row, 1, &g);
        pair_gradient(&g, 1, past);
    }
    if (past) fast_stored_past();
}

#define BACKWARD(name, x, dy)                                                                                \
    VECTOR_CLONES static void name(const op_call *c, int64_t first, int64_t last, float *sums) {             \
        backward_typed(c, (row_pair){ .of_x = x, .of_dy = dy }, first, last, sums);                          \
    }
BACKWARD(backward_f32, DTYPE_F32, DTYPE_F32)
BACKWARD(backward_bf16, DTYPE_BF16, DTYPE_BF16)
BACKWARD(backward_of_bf16, DTYPE_F32, DTYPE_BF16)

static void backward_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    backward_f32(c, first, last, sums);
}

static void run_backward(const op_call *c, row_tiles_body *body) {
    row_tiles_run(
        &(row_tiles){ .call = c,
                      .rows = shape_rows(&c->in[0].shape),
                      .width = shape_last(&c->in[0].shape),
                      .count = 2,
                      .sum = { { op_in(c, 6)->data, c->out[1].data }, { op_in(c, 7)->data, c->out[2].data } },
                      .body = body });
}

static void layernorm_backward_fast(const op_call *c) { run_backward(c, backward_rows); }

static uint64_t layernorm_backward_scratch(const op_call *c, int threads) {
    (void)threads;
    return row_tiles_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 2);
}

/* dgamma, dbeta and their accumulators are f32 and summed apart. */
static widened backward_by_rows(const op_call *c) {
    return (widened){ .rows = shape_rows(&c->in[0].shape),
                      .whole_in = 1u << 1 | 1u << 6 | 1u << 7,
                      .whole_out = 1u << 1 | 1u << 2,
                      .own = units_align(layernorm_backward_scratch(c, 1), 64) };
}

static void backward_widened_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    widened how = backward_by_rows(c);
    int64_t step = widened_step(c, &how);
    for (int64_t row = first; row < last; row += step) {
        widened_rows w;
        widened_open(&w, c, &how, row, last - row < step ? last - row : step, thread);
        backward_f32(&w.call, 0, w.count, sums);
        widened_close(&w);
    }
}

static uint64_t layernorm_backward_widened_scratch(const op_call *c, int threads) {
    widened how = backward_by_rows(c);
    return widened_scratch(c, &how, threads);
}

static void layernorm_backward_widened(const op_call *c) { run_backward(c, backward_widened_rows); }

/* dy of bf16, and x with what goes with it of bf16 or f32. */
static bool backward_accepts_bf16(const op_call *c) {
    dtype x = c->in[0].dtype, before = op_in(c, 5)->dtype;
    return c->in[4].dtype == DTYPE_BF16 && (x == DTYPE_F32 || x == DTYPE_BF16) && c->out[0].dtype == x &&
           (before == DTYPE_NONE || before == x) && c->in[1].dtype == DTYPE_F32;
}

static void backward_bf16_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    (c->in[0].dtype == DTYPE_F32 ? backward_of_bf16 : backward_bf16)(c, first, last, sums);
}

static void layernorm_backward_bf16(const op_call *c) { run_backward(c, backward_bf16_rows); }

const op_kernel layernorm_backward_cpu[] = {
    { "layernorm_backward_cpu_rows", fast_accepts, layernorm_backward_scratch, layernorm_backward_fast },
    { "layernorm_backward_cpu_bf16", backward_accepts_bf16, layernorm_backward_scratch,
      layernorm_backward_bf16 },
    { "layernorm_backward_cpu_widened", widened_accepts, layernorm_backward_widened_scratch,
      layernorm_backward_widened },
    { "layernorm_backward_reference", NULL, NULL, layernorm_backward_reference },
    { 0 }
};
