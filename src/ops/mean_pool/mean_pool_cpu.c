#include <string.h>

#include "ops/fast.h"
#include "ops/mean_pool/mean_pool.h"
#include "ops/mean_pool/mean_pool_math.h"
#include "ops/reference.h"

/* In double, each output rounded once. */
static void mean_pool_reference(const op_call *c) {
    mean_pool_attributes a = *(const mean_pool_attributes *)c->attributes;
    const shape *x = &c->in[0].shape, *y = &c->out[0].shape;
    int64_t channels = y->dim[3];
    for (int64_t at = 0, n = shape_elements(y); at < n; at++) {
        int64_t place = at / channels, b = place / y->dim[2] / y->dim[1];
        mean_pool_span rows = mean_pool_window(a, place / y->dim[2] % y->dim[1], x->dim[1]);
        mean_pool_span columns = mean_pool_window(a, place % y->dim[2], x->dim[2]);
        double sum = 0;
        for (int64_t r = rows.begin; r < rows.end; r++)
            for (int64_t s = columns.begin; s < columns.end; s++)
                sum += reference_get(&c->in[0],
                                     ((b * x->dim[1] + r) * x->dim[2] + s) * channels + at % channels);
        reference_set(&c->out[0], at,
                      sum / (double)(mean_pool_span_size(rows) * mean_pool_span_size(columns)));
    }
}

static void mean_pool_backward_reference(const op_call *c) {
    mean_pool_attributes a = ((const mean_pool_backward_attributes *)c->attributes)->of;
    const shape *x = &c->out[0].shape, *y = &c->in[0].shape;
    int64_t channels = x->dim[3];
    for (int64_t at = 0, n = shape_elements(x); at < n; at++) {
        int64_t place = at / channels, b = place / x->dim[2] / x->dim[1];
        mean_pool_span is = mean_pool_windows(a, place / x->dim[2] % x->dim[1], y->dim[1]);
        mean_pool_span js = mean_pool_windows(a, place % x->dim[2], y->dim[2]);
        double sum = 0;
        for (int64_t i = is.begin; i < is.end; i++)
            for (int64_t j = js.begin; j < js.end; j++)
                sum += reference_get(&c->in[0],
                                     ((b * y->dim[1] + i) * y->dim[2] + j) * channels + at % channels) /
                       (double)(mean_pool_span_size(mean_pool_window(a, i, x->dim[1])) *
                                mean_pool_span_size(mean_pool_window(a, j, x->dim[2])));
        reference_set(&c->out[0], at, sum);
    }
}

/* ---- vectors over channels ---- */

/* y[b,i,j,:] = the mean over a window. */
VECTOR_INLINE void pool_place(const float *x, float *y, int64_t width, int64_t channels, mean_pool_span rows,
                              mean_pool_span columns) {
    float count = (float)(mean_pool_span_size(rows) * mean_pool_span_size(columns));
    memset(y, 0, (size_t)channels * sizeof *y);
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t s = columns.begin; s < columns.end; s++) {
            const float *from = x + (r * width + s) * channels;
            for (int64_t k = 0; k < channels; k++) y[k] += from[k];
        }
    for (int64_t k = 0; k < channels; k++) y[k] /= count;
}

/* Rows are those of the images of y. */
VECTOR_CLONES static void pool_rows(const op_call *c, int64_t first, int64_t last) {
    mean_pool_attributes a = *(const mean_pool_attributes *)c->attributes;
    const shape *x = &c->in[0].shape, *y = &c->out[0].shape;
    int64_t channels = x->dim[3], image = x->dim[1] * x->dim[2] * channels;
    for (int64_t row = first; row < last; row++)
        for (int64_t j = 0; j < y->dim[2]; j++)
            pool_place((const float *)c->in[0].data + row / y->dim[1] * image,
                       (float *)c->out[0].data + (row * y->dim[2] + j) * channels, x->dim[2], channels,
                       mean_pool_window(a, row % y->dim[1], x->dim[1]), mean_pool_window(a, j, x->dim[2]));
}

static int64_t rows_of(const shape *s) { return s->dim[0] * s->dim[1]; }

static void mean_pool_fast(const op_call *c) {
    const shape *y = &c->out[0].shape;
    fast_for(c, rows_of(y), fast_rows(y->dim[2] * y->dim[3]), pool_rows);
}

/* What the windows i, j give to place (row, s), one after the other. */
VECTOR_CLONES static void spread_rows(const op_call *c, int64_t first, int64_t last) {
    mean_pool_attributes a = ((const mean_pool_backward_attributes *)c->attributes)->of;
    const shape *x = &c->out[0].shape, *y = &c->in[0].shape;
    int64_t channels = x->dim[3];
    for (int64_t at = first * x->dim[2]; at < last * x->dim[2]; at++) {
        int64_t row = at / x->dim[2] % x->dim[1], b = at / x->dim[2] / x->dim[1];
        mean_pool_span is = mean_pool_windows(a, row, y->dim[1]);
        mean_pool_span js = mean_pool_windows(a, at % x->dim[2], y->dim[2]);
        float *dx = (float *)c->out[0].data + at * channels;
        memset(dx, 0, (size_t)channels * sizeof *dx);
        for (int64_t i = is.begin; i < is.end; i++)
            for (int64_t j = js.begin; j < js.end; j++) {
                const float *dy =
                    (const float *)c->in[0].data + ((b * y->dim[1] + i) * y->dim[2] + j) * channels;
                float count = (float)(mean_pool_span_size(mean_pool_window(a, i, x->dim[1])) *
                                      mean_pool_span_size(mean_pool_window(a, j, x->dim[2])));
                for (int64_t k = 0; k < channels; k++) dx[k] += dy[k] / count;
            }
    }
}

static void mean_pool_backward_fast(const op_call *c) {
    const shape *x = &c->out[0].shape;
    fast_for(c, rows_of(x), fast_rows(x->dim[2] * x->dim[3]), spread_rows);
}

const op_kernel mean_pool_cpu[] = { { "mean_pool_cpu_channels", fast_accepts, NULL, mean_pool_fast },
                                    { "mean_pool_reference", NULL, NULL, mean_pool_reference },
                                    { 0 } };
const op_kernel mean_pool_backward_cpu[] = {
    { "mean_pool_backward_cpu_channels", fast_accepts, NULL, mean_pool_backward_fast },
    { "mean_pool_backward_reference", NULL, NULL, mean_pool_backward_reference },
    { 0 }
};
