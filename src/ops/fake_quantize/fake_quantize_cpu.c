/* Some hundred numbers at a time, widened to a buffer on the stack where they have 16 bits. A lane is looked
 * over for its largest number before anything of it is written, so y may be x. */
#include <string.h>

#include "base/least.h"
#include "ops/codes.h"
#include "ops/fake_quantize/fake_quantize.h"
#include "ops/fast.h"
#include "ops/reference.h"

enum { PART = 256, ROWS = 32 };

/* ---- parts of a matrix ---- */

static const float *load(const op_arg *x, int64_t at, int64_t n, float room[PART]) {
    if (x->dtype == DTYPE_F32) return (const float *)x->data + at;
    half_widen(x->dtype, (const uint16_t *)x->data + at, n, room);
    return room;
}

static float *room_of(const op_arg *y, int64_t at, float room[PART]) {
    return y->dtype == DTYPE_F32 ? (float *)y->data + at : room;
}

static void store(const op_arg *y, int64_t at, const float *from, int64_t n) {
    if (y->dtype != DTYPE_F32) half_narrow(y->dtype, from, n, (uint16_t *)y->data + at);
}

VECTOR_CLONES static void round_row(const float *x, float scale, float inverse, int64_t n, float *y) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = scale * (float)codes_nearest(x[i], inverse);
}

VECTOR_CLONES static void round_each(const float *x, const float *restrict scale,
                                     const float *restrict inverse, int64_t n, float *y) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = scale[i] * (float)codes_nearest(x[i], inverse[i]);
}

/* ---- a scale for each row ---- */

static void quantize_rows(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = &c->in[0], *y = &c->out[0];
    int64_t columns = shape_last(&x->shape);
    float in[PART], out[PART];
    for (int64_t row = first; row < last; row++) {
        int32_t largest = 0;
        for (int64_t i = 0; i < columns; i += PART) {
            int64_t n = least(PART, columns - i);
            int32_t size = codes_largest(load(x, row * columns + i, n, in), n);
            largest = size > largest ? size : largest;
        }
        float scale = codes_scale(largest), inverse = codes_inverse(scale);
        for (int64_t i = 0; i < columns; i += PART) {
            int64_t n = least(PART, columns - i), at = row * columns + i;
            float *to = room_of(y, at, out);
            round_row(load(x, at, n, in), scale, inverse, n, to);
            store(y, at, to, n);
        }
    }
}

/* ---- a scale for each column ---- */

static void scale_columns(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = &c->in[0];
    int64_t rows = shape_rows(&x->shape), columns = shape_last(&x->shape), n = last - first;
    int32_t largest[PART] = { 0 };
    float in[PART], *scale = c->scratch;
    for (int64_t row = 0; row < rows; row++)
        codes_largest_each(load(x, row * columns + first, n, in), n, largest);
    for (int64_t i = 0; i < n; i++) {
        scale[first + i] = codes_scale(largest[i]);
        scale[columns + first + i] = codes_inverse(scale[first + i]);
    }
}

static void quantize_columns(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = &c->in[0], *y = &c->out[0];
    int64_t columns = shape_last(&x->shape);
    const float *scale = c->scratch;
    float in[PART], out[PART];
    for (int64_t row = first; row < last; row++)
        for (int64_t i = 0; i < columns; i += PART) {
            int64_t n = least(PART, columns - i), at = row * columns + i;
            float *to = room_of(y, at, out);
            round_each(load(x, at, n, in), scale + i, scale + columns + i, n, to);
            store(y, at, to, n);
        }
}

static bool accepts(const op_call *c) { return c->in[0].dtype != DTYPE_F64; }

static uint64_t scratch(const op_call *c, int threads) {
    const fake_quantize_attributes *a = c->attributes;
    (void)threads;
    return a->columns ? 2 * (uint64_t)shape_last(&c->in[0].shape) * sizeof(float) : 0;
}

static void fake_quantize_fast(const op_call *c) {
    const fake_quantize_attributes *a = c->attributes;
    int64_t rows = shape_rows(&c->in[0].shape), columns = shape_last(&c->in[0].shape);
    if (a->columns) fast_for(c, columns, PART / 4, scale_columns);
    fast_for(c, rows, a->columns ? ROWS : fast_rows(columns), a->columns ? quantize_columns : quantize_rows);
}

/* ---- reference ---- */

/* In f32, as codes are made: in double another code would be the nearest here and there. */
static void fake_quantize_reference(const op_call *c) {
    const fake_quantize_attributes *a = c->attributes;
    const op_arg *x = &c->in[0];
    int64_t rows = shape_rows(&x->shape), columns = shape_last(&x->shape);
    int64_t lanes = a->columns ? columns : rows, depth = a->columns ? rows : columns;
    int64_t along = a->columns ? columns : 1, across = a->columns ? 1 : columns;
    for (int64_t lane = 0; lane < lanes; lane++) {
        int32_t largest = 0;
        for (int64_t i = 0; i < depth; i++) {
            int32_t size = codes_size((float)reference_get(x, lane * across + i * along));
            largest = size > largest ? size : largest;
        }
        float scale = codes_scale(largest), inverse = codes_inverse(scale);
        for (int64_t i = 0; i < depth; i++) {
            int64_t at = lane * across + i * along;
            int32_t code = codes_nearest((float)reference_get(x, at), inverse);
            reference_set(&c->out[0], at, (double)(scale * (float)code));
        }
    }
}

const op_kernel fake_quantize_cpu[] = { { "fake_quantize_cpu_vector", accepts, scratch, fake_quantize_fast },
                                        { "fake_quantize_reference", NULL, NULL, fake_quantize_reference },
                                        { 0 } };
