#include <string.h>

#include "ops/columns/columns.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void columns_reference(const op_call *c) {
    const columns_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    int64_t from = shape_last(&x->shape), to = shape_last(&y->shape);
    for (int64_t i = 0, n = shape_elements(&y->shape); i < n; i++) {
        int64_t j = i % to;
        reference_set(y, i,
                      reference_get(x, i / to * from + a->start + j / a->width * a->stride + j % a->width));
    }
}

/* Bytes are moved as they are, so this serves every type. */
static void copy_rows(const op_call *c, int64_t first, int64_t last) {
    const columns_attributes *a = c->attributes;
    size_t item = dtype_bytes(c->in[0].dtype), run = (size_t)a->width * item;
    int64_t from = shape_last(&c->in[0].shape), to = shape_last(&c->out[0].shape);
    for (int64_t r = first; r < last; r++) {
        const char *x = (const char *)c->in[0].data + (size_t)(r * from + a->start) * item;
        char *y = (char *)c->out[0].data + (size_t)(r * to) * item;
        for (int64_t i = 0; i < a->count; i++)
            memcpy(y + (size_t)i * run, x + (size_t)(i * a->stride) * item, run);
    }
}

static void columns_copy(const op_call *c) {
    fast_for(c, shape_rows(&c->out[0].shape), fast_rows(shape_last(&c->out[0].shape)), copy_rows);
}

const op_kernel columns_cpu[] = { { "columns_cpu_copy", NULL, NULL, columns_copy },
                                  { "columns_reference", NULL, NULL, columns_reference },
                                  { 0 } };

/* ---- the gradient ---- */

static void columns_backward_reference(const op_call *c) {
    const columns_backward_attributes *b = c->attributes;
    const columns_attributes *a = &b->of;
    const op_arg *dy = op_in(c, 0), *accumulator = op_in(c, 1), *dx = &c->out[0];
    int64_t from = shape_last(&dy->shape), to = shape_last(&dx->shape);
    for (int64_t i = 0, n = shape_elements(&dx->shape); i < n; i++)
        reference_set(dx, i, accumulator->data ? reference_get(accumulator, i) : 0);
    for (int64_t i = 0, n = shape_elements(&dy->shape); i < n; i++) {
        int64_t j = i % from, at = i / from * to + a->start + j / a->width * a->stride + j % a->width;
        reference_set(dx, at, reference_get(dx, at) + reference_get(dy, i));
    }
}

VECTOR_CLONES static void add_rows(const op_call *c, int64_t first, int64_t last) {
    const columns_backward_attributes *b = c->attributes;
    const columns_attributes *a = &b->of;
    int64_t from = shape_last(&c->in[0].shape), to = b->all;
    const float *before = op_in(c, 1)->data;
    for (int64_t r = first; r < last; r++) {
        const float *dy = (const float *)c->in[0].data + r * from;
        float *dx = (float *)c->out[0].data + r * to;
        if (!before) memset(dx, 0, (size_t)to * sizeof *dx);
        if (before && before + r * to != dx) memcpy(dx, before + r * to, (size_t)to * sizeof *dx);
        for (int64_t i = 0; i < a->count; i++)
            for (int64_t j = 0; j < a->width; j++) dx[a->start + i * a->stride + j] += dy[i * a->width + j];
    }
}

static widened by_rows(const op_call *c) { return (widened){ .rows = shape_rows(&c->in[0].shape) }; }

static uint64_t columns_backward_scratch(const op_call *c, int threads) {
    widened how = by_rows(c);
    return widened_scratch(c, &how, threads);
}

static void columns_backward_fast(const op_call *c) {
    fast_for(c, shape_rows(&c->out[0].shape), fast_rows(shape_last(&c->out[0].shape)), add_rows);
}

static void columns_backward_widened(const op_call *c) {
    widened how = by_rows(c);
    widened_run(c, &how, add_rows);
}

const op_kernel columns_backward_cpu[] = {
    { "columns_backward_cpu_rows", fast_accepts, NULL, columns_backward_fast },
    { "columns_backward_cpu_widened", widened_accepts, columns_backward_scratch, columns_backward_widened },
    { "columns_backward_reference", NULL, NULL, columns_backward_reference },
    { 0 }
};
