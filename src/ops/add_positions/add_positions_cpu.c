#include <string.h>

#include "ops/add_positions/add_positions.h"
#include "ops/add_positions/add_positions_math.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/widened.h"

static add_positions_place placing_forward(const op_call *c) {
    return add_positions_place_of(c->attributes, op_in(c, 2)->data);
}

static add_positions_place placing_backward(const op_call *c) {
    const add_positions_backward_attributes *a = c->attributes;
    return add_positions_place_of(&a->at, op_in(c, 1)->data);
}

static void add_positions_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *table = op_in(c, 1); /* (B,T,C), (S,C) */
    add_positions_place p = placing_forward(c);
    int64_t times = x->shape.dim[1], width = x->shape.dim[2];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        int64_t row = add_positions_row(&p, i / width % times, table->shape.dim[0]);
        reference_set(&c->out[0], i, reference_get(x, i) + reference_get(table, row * width + i % width));
    }
}

VECTOR_CLONES static void add_positions_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data, *table = c->in[1].data;
    float *y = c->out[0].data;
    add_positions_place p = placing_forward(c);
    int64_t times = c->in[0].shape.dim[1], width = c->in[0].shape.dim[2];
    for (int64_t i = first; i < last; i++) {
        const float *position = table + add_positions_row(&p, i % times, c->in[1].shape.dim[0]) * width;
        for (int64_t j = 0; j < width; j++) y[i * width + j] = x[i * width + j] + position[j];
    }
}

VECTOR_CLONES static void add_part(const float *x, int64_t n, float *y) {
    for (int64_t j = 0; j < n; j++) y[j] += x[j];
}

static void add_positions_fast(const op_call *c) {
    fast_for(c, shape_rows(&c->in[0].shape), fast_rows(c->in[0].shape.dim[2]), add_positions_piece);
}

/* A row at a time, so that each has its own place in the table. */
static void narrow_piece(const op_call *c, int64_t first, int64_t last) {
    float x[FAST_PART], position[FAST_PART];
    add_positions_place p = placing_forward(c);
    int64_t times = c->in[0].shape.dim[1], width = c->in[0].shape.dim[2];
    for (int64_t i = first; i < last; i++) {
        int64_t from = add_positions_row(&p, i % times, c->in[1].shape.dim[0]) * width;
        for (int64_t j = 0; j < width; j += FAST_PART) {
            int64_t n = width - j < FAST_PART ? width - j : FAST_PART;
            half_widen(c->in[0].dtype, (const uint16_t *)c->in[0].data + i * width + j, n, x);
            half_widen(c->in[1].dtype, (const uint16_t *)c->in[1].data + from + j, n, position);
            add_part(position, n, x);
            half_narrow(c->out[0].dtype, x, n, (uint16_t *)c->out[0].data + i * width + j);
        }
    }
}

static bool narrow_accepts(const op_call *c) {
    return widened_accepts(c) && c->in[0].dtype == c->in[1].dtype;
}

static void add_positions_narrow(const op_call *c) {
    fast_for(c, shape_rows(&c->in[0].shape), fast_rows(c->in[0].shape.dim[2]), narrow_piece);
}

const op_kernel add_positions_cpu[] = {
    { "add_positions_cpu_vector", fast_accepts, NULL, add_positions_fast },
    { "add_positions_cpu_narrow", narrow_accepts, NULL, add_positions_narrow },
    { "add_positions_reference", NULL, NULL, add_positions_reference },
    { 0 }
};

/* ---- the gradient: table rows get their batch rows one after the other, so it may be cut anywhere ---- */

static add_positions_span times_of(const op_call *c, int64_t row) {
    add_positions_place p = placing_backward(c);
    return add_positions_times(&p, row, c->in[0].shape.dim[1]);
}

static double at_row(const op_arg *x, int64_t row, int64_t column) {
    return reference_get(x, row * x->shape.dim[2] + column);
}

/* Sums are in f32 but where the table is f64, so that they may be cut here as well. */
static void add_positions_backward_reference(const op_call *c) {
    const op_arg *dy = op_in(c, 0), *accumulator = op_in(c, 2), *dtable = &c->out[0];
    int64_t batch = dy->shape.dim[0], times = dy->shape.dim[1], width = dy->shape.dim[2];
    bool wide = dtable->dtype == DTYPE_F64;
    for (int64_t i = 0, n = shape_elements(&dtable->shape); i < n; i++) {
        double sum = accumulator->data ? reference_get(accumulator, i) : 0;
        add_positions_span at = times_of(c, i / width);
        for (int64_t b = 0; b < batch; b++)
            for (int64_t t = at.from; t < at.end; t++)
                sum = wide ? sum + at_row(dy, b * times + t, i % width)
                           : (double)(float)(sum + at_row(dy, b * times + t, i % width));
        reference_set(dtable, i, sum);
    }
}

static void rows_piece(const op_call *c, int64_t first, int64_t last) {
    const float *dy = c->in[0].data, *accumulator = op_in(c, 2)->data;
    const shape *s = &c->in[0].shape;
    int64_t times = s->dim[1], width = s->dim[2];
    for (int64_t row = first; row < last; row++) {
        float *to = (float *)c->out[0].data + row * width;
        add_positions_span at = times_of(c, row);
        for (int64_t j = 0; j < width; j++) to[j] = accumulator ? accumulator[row * width + j] : 0;
        for (int64_t b = 0; b < s->dim[0]; b++)
            for (int64_t t = at.from; t < at.end; t++) add_part(dy + (b * times + t) * width, width, to);
    }
}

static void add_positions_backward_fast(const op_call *c) {
    const shape *table = &c->out[0].shape;
    fast_for(c, table->dim[0], fast_rows(table->dim[1] * c->in[0].shape.dim[0]), rows_piece);
}

/* Elements first .. first+n-1, wide. */
static const float *widen_part(const op_arg *x, int64_t first, int64_t n, float part[FAST_PART]) {
    if (!dtype_is_half(x->dtype)) return (const float *)x->data + first;
    half_widen(x->dtype, (const uint16_t *)x->data + first, n, part);
    return part;
}

/* The batch's rows are added in f32 and rounded once. */
static void narrow_part(const op_call *c, int64_t row, int64_t column, int64_t n) {
    float sum[FAST_PART] = { 0 }, part[FAST_PART];
    const op_arg *dtable = &c->out[0], *accumulator = op_in(c, 2);
    const shape *s = &c->in[0].shape;
    int64_t times = s->dim[1], width = s->dim[2], place = row * width + column;
    add_positions_span at = times_of(c, row);
    if (accumulator->data) memcpy(sum, widen_part(accumulator, place, n, part), (size_t)n * sizeof *sum);
    for (int64_t b = 0; b < s->dim[0]; b++)
        for (int64_t t = at.from; t < at.end; t++)
            add_part(widen_part(&c->in[0], (b * times + t) * width + column, n, part), n, sum);
    if (dtype_is_half(dtable->dtype))
        half_narrow(dtable->dtype, sum, n, (uint16_t *)dtable->data + place);
    else
        memcpy((float *)dtable->data + place, sum, (size_t)n * sizeof *sum);
}

static void narrow_rows_piece(const op_call *c, int64_t first, int64_t last) {
    int64_t width = c->out[0].shape.dim[1];
    for (int64_t row = first; row < last; row++)
        for (int64_t j = 0; j < width; j += FAST_PART)
            narrow_part(c, row, j, width - j < FAST_PART ? width - j : FAST_PART);
}

static void add_positions_backward_narrow(const op_call *c) {
    const shape *table = &c->out[0].shape;
    fast_for(c, table->dim[0], fast_rows(table->dim[1] * c->in[0].shape.dim[0]), narrow_rows_piece);
}

const op_kernel add_positions_backward_cpu[] = {
    { "add_positions_backward_cpu_rows", fast_accepts, NULL, add_positions_backward_fast },
    { "add_positions_backward_cpu_narrow", widened_accepts, NULL, add_positions_backward_narrow },
    { "add_positions_backward_reference", NULL, NULL, add_positions_backward_reference },
    { 0 }
};
