#include <string.h>

#include "base/least.h"
#include "base/threads.h"
#include "ops/codes.h"
#include "ops/quantize/quantize.h"
#include "ops/reference.h"

typedef struct {
    const op_call *call;
    int64_t rows, columns;
    const float *x;
    int8_t *codes;
    float *scales;
    bool drawn;
    codes_draw draw;
} work;

static work work_of(const op_call *c) {
    const quantize_attributes *a = c->attributes;
    const op_arg *x = &c->in[0], *key = op_in(c, 1);
    work w = { .call = c,
               .rows = shape_rows(&x->shape),
               .columns = shape_last(&x->shape),
               .x = x->data,
               .codes = c->out[0].data,
               .scales = c->out[1].data,
               .drawn = key->data != NULL,
               .draw = { .random = { .stream = (uint32_t)a->stream } } };
    if (key->data) memcpy(&w.draw.random.key, key->data, sizeof w.draw.random.key);
    w.draw.random.key.first_sample = 0; /* a weight is of no sample */
    return w;
}

/* Where `ok` is 0: what there was stays. */
static bool is_skipped(const op_call *c) {
    const op_arg *ok = op_in(c, 2);
    if (!ok->data || *(const int32_t *)ok->data != 0) return false;
    for (int o = 0; o < 2; o++) {
        const op_arg *before = &c->in[3 + o];
        if (before->data == c->out[o].data) continue;
        memcpy(c->out[o].data, before->data,
               (size_t)shape_elements(&before->shape) * dtype_bytes(before->dtype));
    }
    return true;
}

static const uint16_t *bits_of(const work *w, int64_t row, int64_t column, uint16_t bits[CODES_DRAWN]) {
    if (!w->drawn) return NULL;
    codes_draw_bits(&w->draw, row * codes_draws(w->columns) + column / CODES_DRAWN, bits);
    return bits;
}

/* ---- fast ---- */

enum { SOME_ROWS = 32, SOME_COLUMNS = 64 };

static void code_rows(void *context, int64_t piece, int thread) {
    const work *w = context;
    uint16_t bits[CODES_DRAWN];
    (void)thread;
    for (int64_t row = piece * SOME_ROWS; row < least(w->rows, (piece + 1) * SOME_ROWS); row++) {
        const float *x = w->x + row * w->columns;
        float scale = codes_scale(codes_largest(x, w->columns)), inverse = codes_inverse(scale);
        w->scales[row] = scale;
        for (int64_t i = 0; i < w->columns; i += CODES_DRAWN)
            codes_encode(x + i, inverse, bits_of(w, row, i, bits), least(CODES_DRAWN, w->columns - i),
                         w->codes + row * w->columns + i);
    }
}

static void scale_columns(void *context, int64_t piece, int thread) {
    const work *w = context;
    int64_t first = piece * SOME_COLUMNS, n = least(SOME_COLUMNS, w->columns - first);
    int32_t largest[SOME_COLUMNS] = { 0 };
    (void)thread;
    for (int64_t row = 0; row < w->rows; row++)
        codes_largest_each(w->x + row * w->columns + first, n, largest);
    for (int64_t i = 0; i < n; i++) w->scales[first + i] = codes_scale(largest[i]);
}

/* Some rows of CODES_DRAWN columns. */
static void code_columns(void *context, int64_t piece, int thread) {
    const work *w = context;
    int64_t draws = codes_draws(w->columns), first = piece % draws * CODES_DRAWN,
            row = piece / draws * SOME_ROWS;
    int64_t n = least(CODES_DRAWN, w->columns - first), last = least(w->rows, row + SOME_ROWS);
    float inverse[CODES_DRAWN];
    uint16_t bits[CODES_DRAWN];
    (void)thread;
    for (int64_t i = 0; i < n; i++) inverse[i] = codes_inverse(w->scales[first + i]);
    for (; row < last; row++)
        codes_encode_each(w->x + row * w->columns + first, inverse, bits_of(w, row, first, bits), n,
                          w->codes + row * w->columns + first);
}

static int64_t pieces(int64_t n, int64_t by) { return (n + by - 1) / by; }

static void quantize_fast(const op_call *c) {
    const quantize_attributes *a = c->attributes;
    work w = work_of(c);
    if (is_skipped(c)) return;
    if (!a->columns) {
        threads_for(pieces(w.rows, SOME_ROWS), code_rows, &w);
        return;
    }
    threads_for(pieces(w.columns, SOME_COLUMNS), scale_columns, &w);
    threads_for(pieces(w.rows, SOME_ROWS) * codes_draws(w.columns), code_columns, &w);
}

/* ---- reference ---- */

static int32_t code_at(const work *w, int64_t row, int64_t column, float inverse) {
    uint16_t bits[CODES_DRAWN];
    float x = w->x[row * w->columns + column];
    if (!w->drawn) return codes_nearest(x, inverse);
    return codes_stochastic(x, inverse, bits_of(w, row, column, bits)[column % CODES_DRAWN]);
}

static void quantize_reference(const op_call *c) {
    const quantize_attributes *a = c->attributes;
    work w = work_of(c);
    int64_t lanes = a->columns ? w.columns : w.rows, depth = a->columns ? w.rows : w.columns;
    if (is_skipped(c)) return;
    for (int64_t lane = 0; lane < lanes; lane++) {
        int32_t largest = 0;
        for (int64_t i = 0; i < depth; i++) {
            int32_t size = codes_size(w.x[a->columns ? i * lanes + lane : lane * depth + i]);
            largest = size > largest ? size : largest;
        }
        w.scales[lane] = codes_scale(largest);
        for (int64_t i = 0; i < depth; i++) {
            int64_t row = a->columns ? i : lane, column = a->columns ? lane : i;
            reference_set(&c->out[0], row * w.columns + column,
                          (double)code_at(&w, row, column, codes_inverse(w.scales[lane])));
        }
    }
}

const op_kernel quantize_cpu[] = { { "quantize_cpu_vector", NULL, NULL, quantize_fast },
                                   { "quantize_reference", NULL, NULL, quantize_reference },
                                   { 0 } };
