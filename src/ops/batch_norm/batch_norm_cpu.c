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

/* ---- in f32, sums over rows in their one order (ops/row_tiles.h) ---- */

enum { PART = 256 }; /* columns at a time */

static int64_t rows_of(const op_call *c) { return shape_rows(&c->in[0].shape); }
static int64_t width_of(const op_call *c) { return shape_last(&c->in[0].shape); }
static int64_t part_of(int64_t width, int64_t first) { return width - first < PART ? width - first : PART; }

/* For every part of a row: at its first column `j`, of `n`. */
#define OVER_PARTS(width, j, n)                                                                              \
    for (int64_t j = 0, n; j < (width) && (n = part_of(width, j), true); j += PART)

VECTOR_CLONES static void add_part(const float *x, int64_t n, float *sum) {
    for (int64_t j = 0; j < n; j++) sum[j] += x[j];
}
VECTOR_CLONES static void add_squares(const float *x, const float *mean, int64_t n, float *sum) {
    for (int64_t j = 0; j < n; j++) {
        float away = x[j] - mean[j];
        sum[j] += away * away;
    }
}

static void sum_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    float room[PART];
    int64_t width = width_of(c);
    for (; first < last; first++)
        OVER_PARTS(width, j, n) add_part(fast_floats(&c->in[0], first * width + j, n, room), n, sums + j);
}
static void square_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    float room[PART];
    const float *mean = c->out[1].data;
    int64_t width = width_of(c);
    for (; first < last; first++) OVER_PARTS(width, j, n)
    add_squares(fast_floats(&c->in[0], first * width + j, n, room), mean + j, n, sums + j);
}

/* What a part of a row is made of. */
typedef struct {
    const float *x, *mean, *rstd, *gamma, *beta;
} norm_part;

VECTOR_CLONES static void norm_to(const norm_part *p, int64_t n, float *y) {
    for (int64_t j = 0; j < n; j++) y[j] = (p->x[j] - p->mean[j]) * p->rstd[j] * p->gamma[j] + p->beta[j];
}

static void norm_row(const op_call *c, int64_t row, const float *mean, const float *rstd) {
    float x[PART], gamma[PART], beta[PART], y[PART];
    int64_t width = width_of(c);
    OVER_PARTS(width, j, n) {
        norm_part p = { fast_floats(&c->in[0], row * width + j, n, x), mean + j, rstd + j,
                        fast_floats(&c->in[1], j, n, gamma), fast_floats(&c->in[2], j, n, beta) };
        norm_to(&p, n, y);
        fast_floats_store(&c->out[0], row * width + j, n, y);
    }
}

static void norm_rows(const op_call *c, int64_t first, int64_t last) {
    for (; first < last; first++) norm_row(c, first, c->out[1].data, c->out[2].data);
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
    fast_for(c, rows_of(c), fast_rows(width), norm_rows);
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

typedef struct {
    const float *x, *dy, *gamma, *mean, *rstd, *dot, *sum;
    float rows;
} slope_part;

VECTOR_CLONES static void add_slopes(const slope_part *p, int64_t n, float *dot, float *sum) {
    for (int64_t j = 0; j < n; j++) {
        dot[j] += p->dy[j] * ((p->x[j] - p->mean[j]) * p->rstd[j]);
        sum[j] += p->dy[j];
    }
}
VECTOR_CLONES static void slopes_to(const slope_part *p, int64_t n, float *dx) {
    for (int64_t j = 0; j < n; j++) {
        float normal = (p->x[j] - p->mean[j]) * p->rstd[j];
        float d = p->dy[j] - (p->sum[j] + normal * p->dot[j]) / p->rows;
        dx[j] = p->gamma[j] * p->rstd[j] * d;
    }
}

typedef struct {
    float x[PART], dy[PART], gamma[PART], mean[PART], rstd[PART];
} slope_room;

static slope_part slope_part_of(const op_call *c, int64_t row, int64_t j, int64_t n, slope_room *r) {
    int64_t width = width_of(c), at = row * width + j;
    const float *dot = sums_of(c);
    return (slope_part){ .x = fast_floats(&c->in[0], at, n, r->x),
                         .dy = fast_floats(&c->in[4], at, n, r->dy),
                         .gamma = fast_floats(&c->in[1], j, n, r->gamma),
                         .mean = fast_floats(&c->in[2], j, n, r->mean),
                         .rstd = fast_floats(&c->in[3], j, n, r->rstd),
                         .dot = dot + j,
                         .sum = dot + width + j,
                         .rows = (float)rows_of(c) };
}

static void sum_slopes(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    slope_room r;
    int64_t width = width_of(c);
    for (; first < last; first++) OVER_PARTS(width, j, n) {
            slope_part p = slope_part_of(c, first, j, n, &r);
            add_slopes(&p, n, sums + j, sums + width + j);
        }
}

static void slope_rows(const op_call *c, int64_t first, int64_t last) {
    slope_room r;
    float dx[PART];
    int64_t width = width_of(c);
    for (; first < last; first++) OVER_PARTS(width, j, n) {
            slope_part p = slope_part_of(c, first, j, n, &r);
            slopes_to(&p, n, dx);
            fast_floats_store(&c->out[0], first * width + j, n, dx);
        }
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
            const op_arg *before = op_in(c, 5 + k);
            float sum = dot[k * width + i];
            reference_set(&c->out[1 + k], i,
                          before->data ? (double)((float)reference_get(before, i) + sum) : (double)sum);
        }
}

static void fixed_rows(const op_call *c, int64_t first, int64_t last) {
    for (; first < last; first++) norm_row(c, first, c->scratch, (const float *)c->scratch + width_of(c));
}

/* Means and what variances come to, as floats. */
static uint64_t fixed_scratch(const op_call *c, int threads) {
    (void)threads;
    return 2 * (uint64_t)width_of(c) * sizeof(float);
}

static void batch_norm_fixed_rows(const op_call *c) {
    const batch_norm_attributes *a = c->attributes;
    int64_t width = width_of(c);
    float *mean = c->scratch, *rstd = mean + width;
    for (int64_t i = 0; i < width; i++) {
        mean[i] = (float)reference_get(op_in(c, 3), i);
        rstd[i] = 1.0f / sqrtf((float)reference_get(op_in(c, 4), i) + a->eps);
    }
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
