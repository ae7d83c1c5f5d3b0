#include "ops/add_positions/add_positions.h"
#include "ops/fast.h"
#include "ops/reference.h"

static int64_t offset_of(const op_arg *offset) { return offset->data ? *(const int32_t *)offset->data : 0; }

/* The nearest row of the table. */
static int64_t row_of(int64_t position, int64_t rows) {
    if (position < 0) return 0;
    return position < rows ? position : rows - 1;
}

static void add_positions_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *table = op_in(c, 1); /* (B,T,C), (S,C) */
    int64_t offset = offset_of(op_in(c, 2)), times = x->shape.dim[1], width = x->shape.dim[2];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        int64_t row = row_of(offset + i / width % times, table->shape.dim[0]);
        reference_set(&c->out[0], i, reference_get(x, i) + reference_get(table, row * width + i % width));
    }
}

VECTOR_CLONES static void add_positions_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data, *table = c->in[1].data;
    float *y = c->out[0].data;
    int64_t offset = offset_of(op_in(c, 2)), times = c->in[0].shape.dim[1], width = c->in[0].shape.dim[2];
    for (int64_t i = first; i < last; i++) {
        const float *position = table + row_of(offset + i % times, c->in[1].shape.dim[0]) * width;
        for (int64_t j = 0; j < width; j++) y[i * width + j] = x[i * width + j] + position[j];
    }
}

static void add_positions_fast(const op_call *c) {
    fast_for(c, shape_rows(&c->in[0].shape), fast_rows(c->in[0].shape.dim[2]), add_positions_piece);
}

const op_kernel add_positions_cpu[] = { { "add_positions_cpu_vector", fast_accepts, NULL,
                                          add_positions_fast },
                                        { "add_positions_reference", NULL, NULL, add_positions_reference },
                                        { 0 } };

/* ---- the gradient: table rows get their batch rows one after the other, so it may be cut anywhere ---- */

static void add_positions_backward_reference(const op_call *c) {
    const op_arg *dy = op_in(c, 0), *accumulator = op_in(c, 2), *dtable = &c->out[0];
    int64_t offset = offset_of(op_in(c, 1)), times = dy->shape.dim[1], width = dy->shape.dim[2];
    for (int64_t i = 0, n = shape_elements(&dtable->shape); i < n; i++)
        reference_set(dtable, i, accumulator->data ? reference_get(accumulator, i) : 0);
    for (int64_t i = 0, n = shape_elements(&dy->shape); i < n; i++) {
        int64_t row = offset + i / width % times;
        if (row < 0 || row >= dtable->shape.dim[0]) continue;
        int64_t place = row * width + i % width;
        reference_set(dtable, place, reference_get(dtable, place) + reference_get(dy, i));
    }
}

VECTOR_CLONES static void rows_piece(const op_call *c, int64_t first, int64_t last) {
    const float *dy = c->in[0].data, *accumulator = op_in(c, 2)->data;
    float *dtable = c->out[0].data;
    const shape *s = &c->in[0].shape;
    int64_t offset = offset_of(op_in(c, 1)), times = s->dim[1], width = s->dim[2];
    for (int64_t row = first; row < last; row++) {
        float *to = dtable + row * width;
        for (int64_t j = 0; j < width; j++) to[j] = accumulator ? accumulator[row * width + j] : 0;
        int64_t t = row - offset;
        if (t < 0 || t >= times) continue;
        for (int64_t b = 0; b < s->dim[0]; b++) {
            const float *from = dy + (b * times + t) * width;
            for (int64_t j = 0; j < width; j++) to[j] += from[j];
        }
    }
}

static void add_positions_backward_fast(const op_call *c) {
    const shape *table = &c->out[0].shape;
    fast_for(c, table->dim[0], fast_rows(table->dim[1] * c->in[0].shape.dim[0]), rows_piece);
}

const op_kernel add_positions_backward_cpu[] = {
    { "add_positions_backward_cpu_rows", fast_accepts, NULL, add_positions_backward_fast },
    { "add_positions_backward_reference", NULL, NULL, add_positions_backward_reference },
    { 0 }
};
