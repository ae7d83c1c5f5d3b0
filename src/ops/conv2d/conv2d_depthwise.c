#include "ops/conv2d/conv2d_depthwise.h"

#include <string.h>

#include "base/half.h"
#include "base/least.h"
#include "base/threads.h"
#include "ops/conv2d/conv2d_math.h"
#include "ops/fast.h"

enum {
    MOST_TAPS = THREADS_ROW_TILE, /* one slice of the depth */
    PLACES = 4,                   /* that share what they read of the weights */
    LANES = 32,                   /* channels at a time */
    FEW = 16,                     /* the same where sums of a row of taps are in registers */
    MOST_COLUMNS = 8              /* of taps whose sums are in registers */
};

static bool accepts(const op_call *c, const shape *w, const conv2d_attributes *a) {
    return fast_accepts_halves(c) && w->dim[0] == a->groups && w->dim[1] == 1 &&
           w->dim[2] * w->dim[3] <= MOST_TAPS;
}

/* ---- y and dx: sums over taps ---- */

/* The same for both: taps go on to one side of a place or to the other. */
typedef struct {
    const op_arg *from, *bias, *to;
    const float *weights;                           /* (tap, channel) */
    int64_t height, width, rows, columns, channels; /* of `from`, of `to`, of both */
    int64_t tap_rows, tap_columns;
    int64_t step, first, direction; /* places are at step * i + first, and taps `direction` apart */
} taps_job;

/* Taps first .. last - 1 of `taps` that are inside of an extent, from a place on. */
typedef struct {
    int64_t first, last;
} tap_range;

static tap_range inside(int64_t at, int64_t direction, int64_t taps, int64_t extent) {
    tap_range r = direction > 0 ? (tap_range){ -at, extent - at } : (tap_range){ at - extent + 1, at + 1 };
    return (tap_range){ most(r.first, 0), least(r.last, taps) };
}

/* What the sums of some places that follow each other are made of. */
typedef struct {
    const void *from;     /* the first place's first tap, at a channel */
    const float *weights; /* its weights */
    const float *bias;    /* or NULL */
    tap_range rows, columns;
    int64_t row_step, column_step, place_step; /* in numbers of `from` */
    int64_t weights_row, weights_step;
} taps_sum;

VECTOR_INLINE float number(const void *data, int64_t at, const dtype type) {
    if (type == DTYPE_BF16) return half_from_bf16(((const uint16_t *)data)[at]);
    if (type == DTYPE_F16) return half_from_f16(((const uint16_t *)data)[at]);
    return ((const float *)data)[at];
}

/* (places, LANES) */
VECTOR_INLINE void sum_taps(const taps_sum *t, const int places, const int n, const dtype type, float *to) {
    float sum[PLACES][LANES];
    for (int k = 0; k < places; k++)
        for (int j = 0; j < n; j++) sum[k][j] = 0;
    for (int64_t u = t->rows.first; u < t->rows.last; u++)
        for (int64_t v = t->columns.first; v < t->columns.last; v++) {
            const float *w = t->weights + u * t->weights_row + v * t->weights_step;
            int64_t at = u * t->row_step + v * t->column_step;
            for (int k = 0; k < places; k++)
                for (int j = 0; j < n; j++)
                    sum[k][j] =
                        vector_fused(number(t->from, at + k * t->place_step + j, type), w[j], sum[k][j]);
        }
    for (int k = 0; k < places; k++)
        for (int j = 0; j < n; j++) {
            float x = 0.0f + sum[k][j];
            to[k * LANES + j] = t->bias ? x + t->bias[j] : x;
        }
}

VECTOR_INLINE void sum_taps_of(const taps_sum *t, int places, int n, const dtype type, float *to) {
    if (n == LANES && places == PLACES)
        sum_taps(t, PLACES, LANES, type, to);
    else if (n == LANES)
        sum_taps(t, 1, LANES, type, to);
    else
        sum_taps(t, 1, n, type, to);
}

VECTOR_CLONES static void sum_f32(const taps_sum *t, int places, int n, float *to) {
    sum_taps_of(t, places, n, DTYPE_F32, to);
}
VECTOR_CLONES static void sum_bf16(const taps_sum *t, int places, int n, float *to) {
    sum_taps_of(t, places, n, DTYPE_BF16, to);
}
VECTOR_CLONES static void sum_f16(const taps_sum *t, int places, int n, float *to) {
    sum_taps_of(t, places, n, DTYPE_F16, to);
}

static const char *place_in(const op_arg *x, int64_t element) {
    return (const char *)x->data + element * (int64_t)dtype_bytes(x->dtype);
}

/* Channels c .. c+n-1 of a row of places. */
static void run_channels(const taps_job *j, int64_t row, int64_t c, int n) {
    float bias[LANES], to[PLACES * LANES];
    int64_t i = row % j->rows * j->step + j->first, line = row / j->rows * j->height + i;
    taps_sum t = { .bias = j->bias->data ? fast_floats(j->bias, c, n, bias) : NULL,
                   .weights = j->weights + c,
                   .rows = inside(i, j->direction, j->tap_rows, j->height),
                   .row_step = j->direction * j->width * j->channels,
                   .column_step = j->direction * j->channels,
                   .place_step = j->step * j->channels,
                   .weights_row = j->tap_columns * j->channels,
                   .weights_step = j->channels };
    int places;
    for (int64_t q = 0; q < j->columns; q += places) {
        int64_t at = q * j->step + j->first, last = at + (PLACES - 1) * j->step;
        tap_range end = inside(last, j->direction, j->tap_columns, j->width);
        t.columns = inside(at, j->direction, j->tap_columns, j->width);
        places = n == LANES && q + PLACES <= j->columns && t.columns.first == end.first &&
                         t.columns.last == end.last
                     ? PLACES
                     : 1;
        t.from = place_in(j->from, (line * j->width + at) * j->channels + c);
        (j->from->dtype == DTYPE_F32    ? sum_f32
         : j->from->dtype == DTYPE_BF16 ? sum_bf16
                                        : sum_f16)(&t, places, n, to);
        for (int k = 0; k < places; k++)
            fast_floats_store(j->to, (row * j->columns + q + k) * j->channels + c, n, to + k * LANES);
    }
}

static void run_row(void *context, int64_t row, int thread) {
    (void)thread;
    const taps_job *j = context;
    for (int64_t c = 0; c < j->channels; c += LANES)
        run_channels(j, row, c, (int)least(j->channels - c, LANES));
}

/* The weights as floats with their channels side by side. */
static void turn_weights(const op_arg *w, float *to) {
    int64_t channels = w->shape.dim[0], taps = w->shape.dim[2] * w->shape.dim[3];
    float room[MOST_TAPS];
    for (int64_t c = 0; c < channels; c++) {
        const float *from = fast_floats(w, c * taps, taps, room);
        for (int64_t t = 0; t < taps; t++) to[t * channels + c] = from[t];
    }
}

static uint64_t weights_bytes(const op_arg *w) { return (uint64_t)shape_elements(&w->shape) * sizeof(float); }

bool conv2d_depthwise_accepts(const op_call *c) { return accepts(c, &c->in[1].shape, c->attributes); }

uint64_t conv2d_depthwise_scratch(const op_call *c, int threads) {
    (void)threads;
    return weights_bytes(&c->in[1]);
}

void conv2d_depthwise_run(const op_call *c) {
    conv2d_sizes n = conv2d_sizes_of(&c->in[0].shape, &c->in[1].shape, &c->out[0].shape, c->attributes);
    turn_weights(&c->in[1], c->scratch);
    threads_for(c->out[0].shape.dim[0] * n.rows, run_row,
                &(taps_job){ .from = &c->in[0],
                             .bias = op_in(c, 2),
                             .to = &c->out[0],
                             .weights = c->scratch,
                             .height = n.height,
                             .width = n.width,
                             .rows = n.rows,
                             .columns = n.columns,
                             .channels = n.all_channels,
                             .tap_rows = n.kernel_height,
                             .tap_columns = n.kernel_width,
                             .step = n.stride,
                             .first = -n.padding,
                             .direction = 1 });
}

/* In larger steps a place sees some taps only. */
bool conv2d_data_depthwise_accepts(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    return a->of.stride == 1 && accepts(c, &c->in[1].shape, &a->of);
}

uint64_t conv2d_data_depthwise_scratch(const op_call *c, int threads) {
    (void)threads;
    return weights_bytes(&c->in[1]);
}

void conv2d_data_depthwise_run(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    conv2d_sizes n = conv2d_sizes_of(&c->out[0].shape, &c->in[1].shape, &c->in[0].shape, &a->of);
    turn_weights(&c->in[1], c->scratch);
    threads_for(c->out[0].shape.dim[0] * n.height, run_row,
                &(taps_job){ .from = &c->in[0],
                             .bias = op_in(c, 2),
                             .to = &c->out[0],
                             .weights = c->scratch,
                             .height = n.rows,
                             .width = n.columns,
                             .rows = n.height,
                             .columns = n.width,
                             .channels = n.all_channels,
                             .tap_rows = n.kernel_height,
                             .tap_columns = n.kernel_width,
                             .step = 1,
                             .first = n.padding,
                             .direction = -1 });
}

/* ---- dw: sums over places ---- */

typedef struct {
    const op_call *call;
    conv2d_sizes n;
} places_job;

/* A row of taps in which some places of a row of y see x. */
typedef struct {
    const void *x, *dy; /* at a channel: x of the row's tap 0 of the place 0 */
    int64_t left;       /* of place 0 and tap 0 in the image's row */
    int64_t count;      /* of places */
    int64_t width, step, channels;
} places_sum;

/* sum (taps, FEW); `taps` of them, which are neighbours. */
VECTOR_INLINE void sum_places(const places_sum *p, const int taps, const int n, const dtype type,
                              float *sum) {
    float here[MOST_COLUMNS][FEW], seen[MOST_COLUMNS * FEW];
    for (int v = 0; v < taps; v++)
        for (int j = 0; j < n; j++) here[v][j] = sum[v * FEW + j];
    for (int64_t k = 0; k < p->count; k++) {
        int64_t left = p->left + k * p->step, at = k * p->step * p->channels;
        float dy[FEW];
        for (int j = 0; j < n; j++) dy[j] = number(p->dy, k * p->channels + j, type);
        if (left >= 0 && left + taps <= p->width) {
            for (int v = 0; v < taps; v++)
                for (int j = 0; j < n; j++)
                    here[v][j] =
                        vector_fused(number(p->x, at + v * p->channels + j, type), dy[j], here[v][j]);
            continue;
        }
        for (int v = 0; v < taps; v++)
            for (int j = 0; j < n; j++)
                seen[v * FEW + j] = left + v >= 0 && left + v < p->width
                                        ? number(p->x, at + v * p->channels + j, type)
                                        : 0.0f;
        for (int v = 0; v < taps; v++)
            for (int j = 0; j < n; j++) here[v][j] = vector_fused(seen[v * FEW + j], dy[j], here[v][j]);
    }
    for (int v = 0; v < taps; v++)
        for (int j = 0; j < n; j++) sum[v * FEW + j] = here[v][j];
}

VECTOR_INLINE void sum_places_of(const places_sum *p, int taps, int n, const dtype type, float *sum) {
    if (n == FEW && taps == 7)
        sum_places(p, 7, FEW, type, sum);
    else if (n == FEW && taps == 5)
        sum_places(p, 5, FEW, type, sum);
    else if (n == FEW && taps == 3)
        sum_places(p, 3, FEW, type, sum);
    else
        sum_places(p, taps, n, type, sum);
}

VECTOR_CLONES static void places_f32(const places_sum *p, int taps, int n, float *sum) {
    sum_places_of(p, taps, n, DTYPE_F32, sum);
}
VECTOR_CLONES static void places_bf16(const places_sum *p, int taps, int n, float *sum) {
    sum_places_of(p, taps, n, DTYPE_BF16, sum);
}
VECTOR_CLONES static void places_f16(const places_sum *p, int taps, int n, float *sum) {
    sum_places_of(p, taps, n, DTYPE_F16, sum);
}

/* Adds places first .. last-1 of y, which are of one row, to the sums of a row of taps. */
static void add_row(const places_job *j, tap_range places, int64_t u, int64_t c, float *tile) {
    const op_arg *x = op_in(j->call, 0), *dy = op_in(j->call, 1);
    const conv2d_sizes *n = &j->n;
    int64_t q = places.first % n->columns, p = places.first / n->columns % n->rows,
            b = places.first / n->columns / n->rows, i = p * n->stride + u - n->padding;
    if (i < 0 || i >= n->height) return;
    places_sum s = { .dy = place_in(dy, places.first * n->all_channels + c),
                     .count = places.last - places.first,
                     .width = n->width,
                     .step = n->stride,
                     .channels = n->all_channels };
    int few = (int)least(n->all_channels - c, FEW);
    for (int64_t v = 0; v < n->kernel_width; v += MOST_COLUMNS) {
        s.left = q * n->stride + v - n->padding;
        s.x = place_in(x, ((b * n->height + i) * n->width + s.left) * n->all_channels + c);
        int taps = (int)least(n->kernel_width - v, MOST_COLUMNS);
        (x->dtype == DTYPE_F32    ? places_f32
         : x->dtype == DTYPE_BF16 ? places_bf16
                                  : places_f16)(&s, taps, few, tile + (u * n->kernel_width + v) * FEW);
    }
}

static void add_tile(const places_job *j, tap_range places, int64_t c, float *sum) {
    const conv2d_sizes *n = &j->n;
    int64_t taps = n->kernel_height * n->kernel_width;
    float tile[MOST_TAPS * FEW];
    for (int64_t i = 0; i < taps * FEW; i++) tile[i] = 0;
    for (int64_t u = 0; u < n->kernel_height; u++)
        for (int64_t first = places.first, last; first < places.last; first = last) {
            last = least((first / n->columns + 1) * n->columns, places.last);
            add_row(j, (tap_range){ first, last }, u, c, tile);
        }
    for (int64_t i = 0; i < taps * FEW; i++) sum[i] += tile[i];
}

static void run_few(void *context, int64_t piece, int thread) {
    (void)thread;
    const places_job *j = context;
    const op_arg *before = op_in(j->call, 2), *dw = &j->call->out[0];
    int64_t taps = j->n.kernel_height * j->n.kernel_width, places = shape_rows(&j->call->in[1].shape);
    int64_t first = piece * FEW, count = least(j->n.all_channels - first, FEW);
    float sum[MOST_TAPS * FEW], room[MOST_TAPS];
    for (int64_t i = 0; i < taps * FEW; i++) sum[i] = 0;
    for (int64_t k = 0; before->data && k < count; k++) {
        const float *w = fast_floats(before, (first + k) * taps, taps, room);
        for (int64_t t = 0; t < taps; t++) sum[t * FEW + k] = w[t];
    }
    for (int64_t at = 0; at < places; at += THREADS_ROW_TILE)
        add_tile(j, (tap_range){ at, least(at + THREADS_ROW_TILE, places) }, first, sum);
    for (int64_t k = 0; k < count; k++) {
        for (int64_t t = 0; t < taps; t++) room[t] = sum[t * FEW + k];
        fast_floats_store(dw, (first + k) * taps, taps, room);
    }
}

bool conv2d_weights_depthwise_accepts(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    return accepts(c, &c->out[0].shape, &a->of);
}

void conv2d_weights_depthwise_run(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    places_job j = { c, conv2d_sizes_of(&c->in[0].shape, &c->out[0].shape, &c->in[1].shape, &a->of) };
    threads_for(divide_up(j.n.all_channels, FEW), run_few, &j);
}
