/* Of a matrix: one sweep for the means of squares, by rows and by columns; one for the size of the update,
 * which is not known before all means are; one for the update. The gradient is read three times, the weights
 * once, and the update itself is never stored. */
#include <math.h>
#include <string.h>

#include "ops/adafactor/adafactor.h"
#include "ops/adafactor/adafactor_math.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/row_tiles.h"

static bool is_skipped(const op_call *c) {
    const op_arg *ok = op_in(c, 7);
    return ok->data && *(const int32_t *)ok->data == 0;
}

static void copy_state(const op_call *c) {
    static const uint32_t from[] = { 0, 2, 3 };
    for (uint32_t o = 0; o < c->out_count; o++)
        if (c->out[o].data != c->in[from[o]].data)
            memcpy(c->out[o].data, c->in[from[o]].data,
                   (size_t)shape_elements(&c->out[o].shape) * dtype_bytes(c->out[o].dtype));
}

/* What depends on the step only, and sizes. */
typedef struct {
    adafactor_step step;
    int64_t rows, width;
} factors;

static factors factors_of(const op_call *c) {
    int64_t all = shape_elements(&c->in[0].shape), width = shape_last(&c->in[0].shape);
    double lr = reference_get(op_in(c, 4), 0);
    double scale = op_in(c, 6)->data ? reference_get(op_in(c, 6), 0) : 1;
    return (factors){ .step = adafactor_step_of(c->attributes, lr, *(const int32_t *)c->in[5].data, scale),
                      .rows = all / width,
                      .width = width };
}

static double clipped_rate(const factors *f, double sum) {
    return adafactor_rate(&f->step, sum, (double)(f->rows * f->width));
}

/* ---- reference ---- */

static double square_at(const op_call *c, const factors *f, int64_t i) {
    double d = f->step.scale * reference_get(op_in(c, 1), i);
    return d * d + f->step.eps;
}

static void reference_mean(const op_arg *before, const op_arg *after, int64_t i, const factors *f,
                           double mean) {
    reference_set(after, i, adafactor_mean(&f->step, reference_get(before, i), mean));
}

static void reference_means(const op_call *c, const factors *f) {
    int64_t rows = f->rows, width = f->width;
    if (!op_in(c, 3)->data) {
        for (int64_t i = 0; i < width; i++) reference_mean(&c->in[2], &c->out[1], i, f, square_at(c, f, i));
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < width; j++) sum += square_at(c, f, i * width + j);
        reference_mean(&c->in[2], &c->out[1], i, f, sum / (double)width);
    }
    for (int64_t j = 0; j < width; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += square_at(c, f, i * width + j);
        reference_mean(&c->in[3], &c->out[2], j, f, sum / (double)rows);
    }
}

/* The second moment at row i, column j; `mean`: of the means of the rows. */
static double moment_at(const op_call *c, int64_t i, int64_t j, double mean) {
    if (c->out_count < 3) return reference_get(&c->out[1], j);
    return reference_get(&c->out[1], i) / mean * reference_get(&c->out[2], j);
}

static void adafactor_reference(const op_call *c) {
    factors f = factors_of(c);
    if (is_skipped(c)) {
        copy_state(c);
        return;
    }
    reference_means(c, &f);
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < f.rows; i++) mean += reference_get(&c->out[1], i) / (double)f.rows;
    for (int64_t i = 0; i < f.rows * f.width; i++) {
        double d = f.step.scale * reference_get(op_in(c, 1), i);
        sum += d * d / moment_at(c, i / f.width, i % f.width, mean);
    }
    double rate = clipped_rate(&f, sum);
    for (int64_t i = 0; i < f.rows * f.width; i++) {
        double d =
            f.step.scale * reference_get(op_in(c, 1), i) / sqrt(moment_at(c, i / f.width, i % f.width, mean));
        reference_set(&c->out[0], i, f.step.weights * reference_get(op_in(c, 0), i) - rate * d);
    }
}

/* ---- fast ---- */

typedef struct {
    const op_call *call;
    factors f;
    int64_t piece;  /* rows that a thread takes at a time; elements of a vector */
    double *sums;   /* of squares of the update, by piece */
    float *columns; /* (m) sums of squares, then 1 / sqrt(columns') */
    double mean, rate;
} sweep;

static int64_t pieces_of(const op_call *c, int64_t *piece) {
    int64_t all = shape_elements(&c->in[0].shape), width = shape_last(&c->in[0].shape);
    bool matrix = c->in_count > 3 && c->in[3].dtype != DTYPE_NONE;
    *piece = matrix ? fast_rows(width) : FAST_PIECE;
    return ((matrix ? all / width : all) + *piece - 1) / *piece;
}

/* Squares of rows first .. last-1: each row's mean at once, the columns' sums into `sums`. */
VECTOR_CLONES static void add_squares_of(const op_call *c, int64_t first, int64_t last, float *sums) {
    factors f = factors_of(c);
    int64_t width = f.width;
    const float *rows = c->in[2].data;
    float *rows_out = c->out[1].data, scale = (float)f.step.scale;
    for (int64_t i = first; i < last; i++) {
        const float *g = (const float *)c->in[1].data + i * width;
        float lane[VECTOR_LANES];
        vector_lanes_clear(lane);
        VECTOR_OVER_LANES(width, j, k, (void)0, float d = scale * g[j + k]; lane[k] += d * d;
                          sums[j + k] += d * d;);
        double mean = (double)vector_lanes_sum(lane) / (double)width + f.step.eps;
        rows_out[i] = (float)adafactor_mean(&f.step, (double)rows[i], mean);
    }
}

static void add_squares(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    add_squares_of(c, first, last, sums);
}

/* What G is multiplied with in row i, beside its column's. */
VECTOR_INLINE float row_scale(const sweep *s, int64_t i) {
    return adafactor_row(&s->f.step, s->mean, ((const float *)s->call->out[1].data)[i]);
}

VECTOR_CLONES static void measure_rows(void *context, int64_t tile, int thread) {
    (void)thread;
    const sweep *s = context;
    int64_t width = s->f.width, end = (tile + 1) * s->piece;
    const float *columns = s->columns;
    double sum = 0;
    for (int64_t i = tile * s->piece; i < end && i < s->f.rows; i++) {
        const float *g = (const float *)s->call->in[1].data + i * width;
        float lane[VECTOR_LANES], row = row_scale(s, i);
        vector_lanes_clear(lane);
        VECTOR_OVER_LANES(width, j, k, (void)0, float u = row * g[j + k] * columns[j + k]; lane[k] += u * u;);
        sum += (double)vector_lanes_sum(lane);
    }
    s->sums[tile] = sum;
}

VECTOR_CLONES static void update_rows(void *context, int64_t tile, int thread) {
    (void)thread;
    const sweep *s = context;
    int64_t width = s->f.width, end = (tile + 1) * s->piece;
    const float *columns = s->columns;
    float weights = (float)s->f.step.weights, rate = (float)s->rate;
    for (int64_t i = tile * s->piece; i < end && i < s->f.rows; i++) {
        const float *g = (const float *)s->call->in[1].data + i * width;
        const float *w = (const float *)s->call->in[0].data + i * width;
        float *w_out = (float *)s->call->out[0].data + i * width, row = row_scale(s, i);
#pragma GCC ivdep
        for (int64_t j = 0; j < width; j++)
            w_out[j] = adafactor_update(weights, rate, w[j], row * g[j] * columns[j]);
    }
}

static double sum_of(const sweep *s, int64_t pieces) {
    double sum = 0;
    for (int64_t i = 0; i < pieces; i++) sum += s->sums[i];
    return sum;
}

static void update_matrix(sweep *s, int64_t pieces) {
    const op_call *c = s->call;
    const float *columns = c->in[3].data, *rows_out = c->out[1].data;
    float *columns_out = c->out[2].data;
    const factors *f = &s->f;
    row_tiles_run(&(row_tiles){ .call = c,
                                .rows = f->rows,
                                .width = f->width,
                                .count = 1,
                                .sum = { { .out = s->columns } },
                                .body = add_squares });
    for (int64_t j = 0; j < f->width; j++) {
        double mean = (double)s->columns[j] / (double)f->rows + f->step.eps;
        columns_out[j] = (float)adafactor_mean(&f->step, (double)columns[j], mean);
        s->columns[j] = adafactor_column(columns_out[j]);
    }
    for (int64_t i = 0; i < f->rows; i++) s->mean += (double)rows_out[i];
    s->mean /= (double)f->rows;
    threads_for(pieces, measure_rows, s);
    s->rate = clipped_rate(f, sum_of(s, pieces));
    threads_for(pieces, update_rows, s);
}

VECTOR_CLONES static void measure_elements(void *context, int64_t tile, int thread) {
    (void)thread;
    const sweep *s = context;
    const float *g = s->call->in[1].data, *moment = s->call->in[2].data;
    float *moment_out = s->call->out[1].data;
    adafactor_step step = s->f.step;
    float scale = (float)step.scale;
    int64_t i = tile * s->piece, end = i + s->piece < s->f.width ? i + s->piece : s->f.width;
    double sum = 0;
    for (; i < end; i++) {
        float square = scale * g[i] * (scale * g[i]);
        moment_out[i] = adafactor_moment(&step, moment[i], square);
        sum += (double)square / (double)moment_out[i];
    }
    s->sums[tile] = sum;
}

VECTOR_CLONES static void update_elements(void *context, int64_t tile, int thread) {
    (void)thread;
    const sweep *s = context;
    const float *w = s->call->in[0].data, *g = s->call->in[1].data, *moment = s->call->out[1].data;
    float *w_out = s->call->out[0].data;
    float weights = (float)s->f.step.weights, rate = (float)(s->rate * s->f.step.scale);
    int64_t i = tile * s->piece, end = i + s->piece < s->f.width ? i + s->piece : s->f.width;
#pragma GCC ivdep
    for (; i < end; i++) w_out[i] = adafactor_update(weights, rate, w[i], g[i] / sqrtf(moment[i]));
}

static void adafactor_fast(const op_call *c) {
    if (is_skipped(c)) {
        copy_state(c);
        return;
    }
    sweep s = { .call = c, .f = factors_of(c) };
    int64_t pieces = pieces_of(c, &s.piece);
    s.sums = (double *)((char *)c->scratch + c->scratch_bytes) - pieces;
    if (c->out_count > 2) {
        s.columns = (float *)c->scratch + row_tiles_scratch(s.f.rows, s.f.width, 1) / sizeof(float);
        update_matrix(&s, pieces);
    } else {
        threads_for(pieces, measure_elements, &s);
        s.rate = clipped_rate(&s.f, sum_of(&s, pieces));
        threads_for(pieces, update_elements, &s);
    }
}

/* The shares of row_tiles, the columns, and at the end the sums. */
static uint64_t adafactor_scratch(const op_call *c, int threads) {
    (void)threads;
    int64_t width = shape_last(&c->in[0].shape), piece, pieces = pieces_of(c, &piece);
    uint64_t floats = 0;
    if (c->out_count > 2)
        floats = row_tiles_scratch(shape_elements(&c->in[0].shape) / width, width, 1) +
                 (uint64_t)width * sizeof(float);
    return (floats + 7) / 8 * 8 + (uint64_t)pieces * sizeof(double);
}

const op_kernel adafactor_cpu[] = { { "adafactor_cpu_sweeps", fast_accepts, adafactor_scratch,
                                      adafactor_fast },
                                    { "adafactor_reference", NULL, NULL, adafactor_reference },
                                    { 0 } };
