#include <math.h>

#include "base/units.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/row_tiles.h"

static void batch_norm_reference(const op_call *c) {
    const batch_norm_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape);
    for (int64_t i = 0; i < width; i++) {
        double mean = 0, variance = 0;
        for (int64_t r = 0; r < rows; r++) mean += reference_get(x, r * width + i) / (double)rows;
        for (int64_t r = 0; r < rows; r++) {
            double away = reference_get(x, r * width + i) - mean;
            variance += away * away / (double)rows;
        }
        double rstd = 1 / sqrt(variance + (double)a->eps);
        reference_set(&c->out[1], i, mean);
        reference_set(&c->out[2], i, rstd);
        for (int64_t r = 0; r < rows; r++)
            reference_set(&c->out[0], r * width + i,
                          (reference_get(x, r * width + i) - mean) * rstd * reference_get(op_in(c, 1), i) +
                              reference_get(op_in(c, 2), i));
    }
}

/* With n = (x - mean) rstd: dbeta = sum dy, dgamma = sum dy n, dx = gamma rstd (dy - dbeta / N - n dgamma /
 * N). dx may live where x or dy does, so an element is read before it is written. */
static void batch_norm_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 4);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape);
    for (int64_t i = 0; i < width; i++) {
        double mean = reference_get(op_in(c, 2), i), rstd = reference_get(op_in(c, 3), i), sum = 0, dot = 0;
        for (int64_t r = 0; r < rows; r++) {
            double d = reference_get(dy, r * width + i);
            sum += d, dot += d * (reference_get(x, r * width + i) - mean) * rstd;
        }
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = r * width + i;
            double n = (reference_get(x, at) - mean) * rstd;
            double d = reference_get(dy, at) - (sum + n * dot) / (double)rows;
            reference_set(&c->out[0], at, reference_get(op_in(c, 1), i) * rstd * d);
        }
        for (uint32_t k = 0; k < 2; k++) {
            const op_arg *before = op_in(c, 5 + k);
            reference_set(&c->out[1 + k], i, (before->data ? reference_get(before, i) : 0) + (k ? sum : dot));
        }
    }
}

static void batch_norm_running_reference(const op_call *c) {
    const batch_norm_running_attributes *a = c->attributes;
    double share = (double)a->momentum, rows = (double)a->rows;
    for (int64_t i = 0, n = shape_elements(&op_in(c, 0)->shape); i < n; i++) {
        double rstd = reference_get(op_in(c, 3), i), variance = 1 / (rstd * rstd) - (double)a->eps;
        if (rows > 1) variance *= rows / (rows - 1);
        reference_set(&c->out[0], i,
                      (1 - share) * reference_get(op_in(c, 0), i) + share * reference_get(op_in(c, 2), i));
        reference_set(&c->out[1], i, (1 - share) * reference_get(op_in(c, 1), i) + share * variance);
    }
}

static void batch_norm_fixed_reference(const op_call *c) {
    const batch_norm_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape);
    for (int64_t at = 0, n = shape_elements(&x->shape); at < n; at++) {
        int64_t i = at % width;
        double rstd = 1 / sqrt(reference_get(op_in(c, 4), i) + (double)a->eps);
        reference_set(&c->out[0], at,
                      (reference_get(x, at) - reference_get(op_in(c, 3), i)) * rstd *
                              reference_get(op_in(c, 1), i) +
                          reference_get(op_in(c, 2), i));
    }
}

/* ---- in f32, sums over rows in their one order (ops/row_tiles.h) ----
 *
 * What a channel has one of is f32; x, y and their gradients are of one type, a constant in each loop. */

enum { AT_ONCE = 4 }; /* rows that are added to sums while these are in registers */

static int64_t rows_of(const op_call *c) { return shape_rows(&c->in[0].shape); }
static int64_t width_of(const op_call *c) { return shape_last(&c->in[0].shape); }

VECTOR_INLINE float number(const void *data, int64_t at, const dtype type) {
    if (type == DTYPE_BF16) return half_from_bf16(((const uint16_t *)data)[at]);
    if (type == DTYPE_F16) return half_from_f16(((const uint16_t *)data)[at]);
    return ((const float *)data)[at];
}

VECTOR_INLINE void put(void *data, int64_t at, float x, const dtype type) {
    if (type == DTYPE_BF16)
        ((uint16_t *)data)[at] = half_to_bf16(x);
    else if (type == DTYPE_F16)
        ((uint16_t *)data)[at] = half_to_f16(x);
    else
        ((float *)data)[at] = x;
}

/* Some rows of a call, and what each channel has. */
typedef struct {
    const void *x, *dy;
    void *y; /* or dx; may be x or dy */
    const float *mean, *rstd, *gamma, *beta;
    const float *dot, *sum; /* of the gradients */
    float all_rows;
    int64_t first, last, width;
} norm_rows;

/* A body for each type: `name`_row is inlined with the type as a constant. */
#define FOR_TYPES(name)                                                                                      \
    VECTOR_CLONES static void name##_f32(const norm_rows *r, float *sum) { name(r, sum, DTYPE_F32); }        \
    VECTOR_CLONES static void name##_f16(const norm_rows *r, float *sum) { name(r, sum, DTYPE_F16); }        \
    VECTOR_CLONES static void name##_bf16(const norm_rows *r, float *sum) { name(r, sum, DTYPE_BF16); }      \
    static void name##_of(const norm_rows *r, dtype type, float *sum) {                                      \
        (type == DTYPE_F32 ? name##_f32 : type == DTYPE_F16 ? name##_f16 : name##_bf16)(r, sum);             \
    }

VECTOR_INLINE void add_numbers(const norm_rows *r, float *restrict sum, const dtype type) {
    int64_t row = r->first, w = r->width;
    for (; row + AT_ONCE <= r->last; row += AT_ONCE)
        for (int64_t j = 0, at = row * w; j < w; j++, at++) {
            float s = sum[j];
            for (int k = 0; k < AT_ONCE; k++) s += number(r->x, at + k * w, type);
            sum[j] = s;
        }
    for (; row < r->last; row++)
        for (int64_t j = 0; j < w; j++) sum[j] += number(r->x, row * w + j, type);
}
FOR_TYPES(add_numbers)

VECTOR_INLINE float square(const norm_rows *r, int64_t at, int64_t j, const dtype type) {
    float away = number(r->x, at, type) - r->mean[j];
    return away * away;
}

VECTOR_INLINE void add_squares(const norm_rows *r, float *restrict sum, const dtype type) {
    int64_t row = r->first, w = r->width;
    for (; row + AT_ONCE <= r->last; row += AT_ONCE)
        for (int64_t j = 0, at = row * w; j < w; j++, at++) {
            float s = sum[j];
            for (int k = 0; k < AT_ONCE; k++) s += square(r, at + k * w, j, type);
            sum[j] = s;
        }
    for (; row < r->last; row++)
        for (int64_t j = 0; j < w; j++) sum[j] += square(r, row * w + j, j, type);
}
FOR_TYPES(add_squares)

VECTOR_INLINE void normalise(const norm_rows *r, float *sum, const dtype type) {
    (void)sum;
    for (int64_t row = r->first; row < r->last; row++) {
        int64_t at = row * r->width;
#pragma GCC ivdep
        for (int64_t j = 0; j < r->width; j++)
            put(r->y, at + j,
                (number(r->x, at + j, type) - r->mean[j]) * r->rstd[j] * r->gamma[j] + r->beta[j], type);
    }
}
FOR_TYPES(normalise)

static norm_rows rows_between(const op_call *c, int64_t first, int64_t last) {
    return (norm_rows){ .x = c->in[0].data,
                        .y = c->out[0].data,
                        .gamma = c->in[1].data,
                        .beta = c->in[2].data,
                        .first = first,
                        .last = last,
                        .width = width_of(c) };
}

static void sum_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    norm_rows r = rows_between(c, first, last);
    add_numbers_of(&r, c->in[0].dtype, sums);
}
static void square_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    norm_rows r = rows_between(c, first, last);
    r.mean = c->out[1].data;
    add_squares_of(&r, c->in[0].dtype, sums);
}

static void normalise_rows(const op_call *c, int64_t first, int64_t last) {
    norm_rows r = rows_between(c, first, last);
    r.mean = c->out[1].data, r.rstd = c->out[2].data;
    normalise_of(&r, c->in[0].dtype, NULL);
}

static void tiles_run(const op_call *c, row_tiles_body *body, float *sum) {
    row_tiles_run(&(row_tiles){ .call = c,
                                .rows = rows_of(c),
                                .width = width_of(c),
                                .count = 1,
                                .sum = { { NULL, sum } },
                                .body = body });
}

static uint64_t batch_norm_scratch(const op_call *c, int threads) {
    (void)threads;
    return row_tiles_scratch(rows_of(c), width_of(c), 1);
}

static void batch_norm_tiles(const op_call *c) {
    const batch_norm_attributes *a = c->attributes;
    float *mean = c->out[1].data, *rstd = c->out[2].data, rows = (float)rows_of(c);
    int64_t width = width_of(c);
    tiles_run(c, sum_rows, mean);
    for (int64_t i = 0; i < width; i++) mean[i] = mean[i] / rows;
    tiles_run(c, square_rows, rstd);
    for (int64_t i = 0; i < width; i++) rstd[i] = 1.0f / sqrtf(rstd[i] / rows + a->eps);
    fast_for(c, rows_of(c), fast_rows(width), normalise_rows);
}

/* The gradient: its sums stand behind the tiles, of dy n and then of dy. */
static uint64_t tiles_bytes(const op_call *c) {
    return units_align(row_tiles_scratch(rows_of(c), width_of(c), 2), 64);
}
static uint64_t batch_norm_backward_scratch(const op_call *c, int threads) {
    (void)threads;
    return tiles_bytes(c) + 2 * (uint64_t)width_of(c) * sizeof(float);
}
static float *sums_of(const op_call *c) { return (float *)((char *)c->scratch + tiles_bytes(c)); }

VECTOR_INLINE float normal(const norm_rows *r, int64_t at, int64_t j, const dtype type) {
    return (number(r->x, at, type) - r->mean[j]) * r->rstd[j];
}

/* Sums of dy n, and behind them of dy. */
VECTOR_INLINE void add_slopes(const norm_rows *r, float *restrict sums, const dtype type) {
    int64_t row = r->first, w = r->width;
    float *restrict dot = sums, *restrict sum = sums + w;
    for (; row + AT_ONCE <= r->last; row += AT_ONCE)
#pragma GCC ivdep
        for (int64_t j = 0; j < w; j++) {
            float d = dot[j], s = sum[j];
            for (int k = 0; k < AT_ONCE; k++) {
                int64_t at = (row + k) * w + j;
                float dy = number(r->dy, at, type);
                d += dy * normal(r, at, j, type);
                s += dy;
            }
            dot[j] = d, sum[j] = s;
        }
    for (; row < r->last; row++)
#pragma GCC ivdep
        for (int64_t j = 0; j < w; j++) {
            float dy = number(r->dy, row * w + j, type);
            dot[j] += dy * normal(r, row * w + j, j, type);
            sum[j] += dy;
        }
}
FOR_TYPES(add_slopes)

VECTOR_INLINE void slopes(const norm_rows *r, float *unused, const dtype type) {
    (void)unused;
    for (int64_t row = r->first; row < r->last; row++) {
        int64_t at = row * r->width;
#pragma GCC ivdep
        for (int64_t j = 0; j < r->width; j++) {
            float n = normal(r, at + j, j, type);
            float d = number(r->dy, at + j, type) - (r->sum[j] + n * r->dot[j]) / r->all_rows;
            put(r->y, at + j, r->gamma[j] * r->rstd[j] * d, type);
        }
    }
}
FOR_TYPES(slopes)

static norm_rows backward_rows(const op_call *c, int64_t first, int64_t last) {
    return (norm_rows){ .x = c->in[0].data,
                        .dy = c->in[4].data,
                        .y = c->out[0].data,
                        .gamma = c->in[1].data,
                        .mean = c->in[2].data,
                        .rstd = c->in[3].data,
                        .dot = sums_of(c),
                        .sum = sums_of(c) + width_of(c),
                        .all_rows = (float)rows_of(c),
                        .first = first,
                        .last = last,
                        .width = width_of(c) };
}

static void sum_slopes(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    norm_rows r = backward_rows(c, first, last);
    add_slopes_of(&r, c->in[0].dtype, sums);
}

static void slope_rows(const op_call *c, int64_t first, int64_t last) {
    norm_rows r = backward_rows(c, first, last);
    slopes_of(&r, c->in[0].dtype, NULL);
}

static void batch_norm_backward_tiles(const op_call *c) {
    int64_t width = width_of(c);
    float *dot = sums_of(c);
    row_tiles_run(&(row_tiles){ .call = c,
                                .rows = rows_of(c),
                                .width = width,
                                .count = 2,
                                .sum = { { NULL, dot }, { NULL, dot + width } },
                                .body = sum_slopes });
    fast_for(c, rows_of(c), fast_rows(width), slope_rows);
    for (uint32_t k = 0; k < 2; k++)
        for (int64_t i = 0; i < width; i++) {
            const float *before = op_in(c, 5 + k)->data;
            float sum = dot[k * width + i];
            ((float *)c->out[1 + k].data)[i] = before ? before[i] + sum : sum;
        }
}

static void fixed_rows(const op_call *c, int64_t first, int64_t last) {
    norm_rows r = rows_between(c, first, last);
    r.mean = c->in[3].data, r.rstd = c->scratch;
    normalise_of(&r, c->in[0].dtype, NULL);
}

/* What variances come to. */
static uint64_t fixed_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)width_of(c) * sizeof(float);
}

static void batch_norm_fixed_rows(const op_call *c) {
    const batch_norm_attributes *a = c->attributes;
    int64_t width = width_of(c);
    const float *variance = c->in[4].data;
    float *rstd = c->scratch;
    for (int64_t i = 0; i < width; i++) rstd[i] = 1.0f / sqrtf(variance[i] + a->eps);
    fast_for(c, rows_of(c), fast_rows(width), fixed_rows);
}

const op_kernel batch_norm_cpu[] = { { "batch_norm_cpu_tiles", fast_accepts_halves, batch_norm_scratch,
                                       batch_norm_tiles },
                                     { "batch_norm_reference", NULL, NULL, batch_norm_reference },
                                     { 0 } };
const op_kernel batch_norm_backward_cpu[] = { { "batch_norm_backward_cpu_tiles", fast_accepts_halves,
                                                batch_norm_backward_scratch, batch_norm_backward_tiles },
                                              { "batch_norm_backward_reference", NULL, NULL,
                                                batch_norm_backward_reference },
                                              { 0 } };
const op_kernel batch_norm_running_cpu[] = {
    { "batch_norm_running_reference", NULL, NULL, batch_norm_running_reference }, { 0 }
};
const op_kernel batch_norm_fixed_cpu[] = {
    { "batch_norm_fixed_cpu_rows", fast_accepts_halves, fixed_scratch, batch_norm_fixed_rows },
    { "batch_norm_fixed_reference", NULL, NULL, batch_norm_fixed_reference },
    { 0 }
};
