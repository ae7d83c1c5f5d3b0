#include "base/units.h"
#include "ops/column_scale/column_scale.h"
#include "ops/reference.h"
#include "ops/row_tiles.h"
#include "ops/widened.h"

static void column_scale_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape);
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(x, i) * reference_get(op_in(c, 1), i % width));
}

VECTOR_CLONES static void scale_rows(const op_call *c, int64_t first, int64_t last) {
    int64_t width = shape_last(&c->in[0].shape);
    const float *gamma = c->in[1].data;
    for (int64_t row = first; row < last; row++) {
        const float *x = (const float *)c->in[0].data + row * width;
        float *y = (float *)c->out[0].data + row * width;
#pragma GCC ivdep
        for (int64_t j = 0; j < width; j++) y[j] = x[j] * gamma[j];
    }
}

static void column_scale_fast(const op_call *c) {
    const shape *x = &c->in[0].shape;
    fast_for(c, shape_rows(x), fast_rows(shape_last(x)), scale_rows);
}

static widened by_rows(const op_call *c) {
    return (widened){ .rows = shape_rows(&c->in[0].shape), .whole_in = 1u << 1 };
}

static uint64_t column_scale_widened_scratch(const op_call *c, int threads) {
    widened how = by_rows(c);
    return widened_scratch(c, &how, threads);
}

static void column_scale_widened(const op_call *c) {
    widened how = by_rows(c);
    widened_run(c, &how, scale_rows);
}

const op_kernel column_scale_cpu[] = { { "column_scale_cpu_rows", fast_accepts, NULL, column_scale_fast },
                                       { "column_scale_cpu_widened", widened_accepts,
                                         column_scale_widened_scratch, column_scale_widened },
                                       { "column_scale_reference", NULL, NULL, column_scale_reference },
                                       { 0 } };

/* ---- the gradient: dgamma in row tiles, so that a batch may be cut between them ---- */

/* dx may live where x or dy does: a column's sum comes before. */
static void column_scale_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gamma = op_in(c, 1), *dy = op_in(c, 2), *before = op_in(c, 3);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape);
    for (int64_t i = 0; i < width; i++) {
        reference_set(&c->out[0], i, before->data ? reference_get(before, i) : 0);
        for (int64_t tile = 0; tile < rows; tile += THREADS_ROW_TILE) {
            double sum = 0;
            for (int64_t r = tile; r < rows && r < tile + THREADS_ROW_TILE; r++)
                sum += reference_get(x, r * width + i) * reference_get(dy, r * width + i);
            reference_set(&c->out[0], i, reference_get(&c->out[0], i) + sum);
        }
    }
    for (int64_t i = 0; i < rows * width; i++)
        reference_set(&c->out[1], i, reference_get(gamma, i % width) * reference_get(dy, i));
}

VECTOR_CLONES static void backward_f32(const op_call *c, int64_t first, int64_t last, float *sums) {
    int64_t width = shape_last(&c->in[0].shape);
    const float *gamma = c->in[1].data;
    for (int64_t row = first; row < last; row++) {
        const float *x = (const float *)c->in[0].data + row * width;
        const float *dy = (const float *)c->in[2].data + row * width;
        float *dx = (float *)c->out[1].data + row * width;
#pragma GCC ivdep
        for (int64_t j = 0; j < width; j++) {
            float d = dy[j];
            sums[j] += x[j] * d;
            dx[j] = gamma[j] * d;
        }
    }
}

static void backward_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    backward_f32(c, first, last, sums);
}

static uint64_t backward_scratch(const op_call *c, int threads) {
    (void)threads;
    return row_tiles_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 1);
}

static void run_backward(const op_call *c, row_tiles_body *body) {
    row_tiles_run(&(row_tiles){ .call = c,
                                .rows = shape_rows(&c->in[0].shape),
                                .width = shape_last(&c->in[0].shape),
                                .count = 1,
                                .sum = { { op_in(c, 3)->data, c->out[0].data } },
                                .body = body });
}

static void column_scale_backward_fast(const op_call *c) { run_backward(c, backward_rows); }

/* gamma, dgamma and its accumulator are f32; what is added up is apart. */
static widened backward_by_rows(const op_call *c) {
    return (widened){ .rows = shape_rows(&c->in[0].shape),
                      .whole_in = 1u << 1 | 1u << 3,
                      .whole_out = 1u << 0,
                      .own = units_align(backward_scratch(c, 1), 64) };
}

static void backward_widened_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    widened how = backward_by_rows(c);
    int64_t step = widened_step(c, &how);
    for (int64_t row = first; row < last; row += step) {
        widened_rows w;
        widened_open(&w, c, &how, row, last - row < step ? last - row : step, thread);
        backward_f32(&w.call, 0, w.count, sums);
        widened_close(&w);
    }
}

static uint64_t backward_widened_scratch(const op_call *c, int threads) {
    widened how = backward_by_rows(c);
    return widened_scratch(c, &how, threads);
}

static void column_scale_backward_widened(const op_call *c) { run_backward(c, backward_widened_rows); }

const op_kernel column_scale_backward_cpu[] = {
    { "column_scale_backward_cpu_rows", fast_accepts, backward_scratch, column_scale_backward_fast },
    { "column_scale_backward_cpu_widened", widened_accepts, backward_widened_scratch,
      column_scale_backward_widened },
    { "column_scale_backward_reference", NULL, NULL, column_scale_backward_reference },
    { 0 }
};
