#include <math.h>

#include "base/units.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/row_tiles.h"
#include "ops/widened.h"

static void rmsnorm_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gamma = op_in(c, 1), *y = &c->out[0], *rstd = &c->out[1];
    const rmsnorm_attributes *a = c->attributes;
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    for (int64_t r = 0; r < rows; r++) {
        double squares = 0;
        for (int64_t j = 0; j < width; j++)
            squares += reference_get(x, r * width + j) * reference_get(x, r * width + j);
        double s = 1 / sqrt(squares / (double)width + (double)a->eps);
        for (int64_t j = 0; j < width; j++)
            reference_set(y, r * width + j,
                          reference_get(x, r * width + j) * s * ((double)a->plus + reference_get(gamma, j)));
        reference_set(rstd, r, s);
    }
}

VECTOR_INLINE float row_mean_square(const void *x, int64_t n, const dtype type) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, fast_fetch(x, n + i + j, type), /* of the next row */
                      float here = fast_get(x, i + j, type);
                      lane[j] += here * here;);
    return vector_lanes_sum(lane) / (float)n;
}

VECTOR_INLINE void norm_rows(const op_call *c, int64_t first, int64_t last, const dtype from,
                             const dtype to) {
    const rmsnorm_attributes *a = c->attributes;
    const float *gamma = c->in[1].data;
    float *rstd = c->out[1].data;
    int64_t width = shape_last(&c->in[0].shape);
    for (int64_t r = first; r < last; r++) {
        const void *x = fast_at(c->in[0].data, r * width, from);
        void *y = (char *)c->out[0].data + r * width * fast_bytes(to);
        float s = 1.0f / sqrtf(row_mean_square(x, width, from) + a->eps);
#pragma GCC ivdep
        for (int64_t j = 0; j < width; j++)
            fast_put(y, j, fast_get(x, j, from) * s * (gamma[j] + a->plus), to);
        rstd[r] = s;
    }
}

FAST_TYPED(rmsnorm_rows, norm_rows, DTYPE_F32, DTYPE_F32)
FAST_TYPED(rmsnorm_bf16_rows, norm_rows, DTYPE_BF16, DTYPE_BF16)
FAST_TYPED(rmsnorm_to_bf16_rows, norm_rows, DTYPE_F32, DTYPE_BF16)

static void run_rows(const op_call *c, fast_body body) {
    const shape *x = &c->in[0].shape;
    fast_for(c, shape_rows(x), fast_rows(shape_last(x)), body);
}

static void rmsnorm_fast(const op_call *c) { run_rows(c, rmsnorm_rows); }

static bool accepts_bf16(const op_call *c) {
    return fast_is_of(c, DTYPE_BF16, DTYPE_BF16) || fast_is_of(c, DTYPE_F32, DTYPE_BF16);
}

static void rmsnorm_bf16(const op_call *c) {
    run_rows(c, c->in[0].dtype == DTYPE_F32 ? rmsnorm_to_bf16_rows : rmsnorm_bf16_rows);
}

static widened by_rows(const op_call *c) {
    return (widened){ .rows = shape_rows(&c->in[0].shape), .whole_in = 1u << 1 };
}

static uint64_t rmsnorm_widened_scratch(const op_call *c, int threads) {
    widened how = by_rows(c);
    return widened_scratch(c, &how, threads);
}

static void rmsnorm_widened(const op_call *c) {
    widened how = by_rows(c);
    widened_run(c, &how, rmsnorm_rows);
}

const op_kernel rmsnorm_cpu[] = { { "rmsnorm_cpu_rows", fast_accepts, NULL, rmsnorm_fast },
                                  { "rmsnorm_cpu_bf16", accepts_bf16, NULL, rmsnorm_bf16 },
                                  { "rmsnorm_cpu_widened", widened_accepts, rmsnorm_widened_scratch,
                                    rmsnorm_widened },
                                  { "rmsnorm_reference", NULL, NULL, rmsnorm_reference },
                                  { 0 } };

/* ---- the gradient ----
 * With n = x rstd and u = dy gamma: dx = rstd (u - n average(u n)), dgamma = sum of dy n. */

static void sum_gamma_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *rstd = op_in(c, 2), *dy = op_in(c, 3), *accumulator = op_in(c, 5);
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    for (int64_t j = 0; j < width; j++) {
        reference_set(&c->out[1], j, accumulator->data ? reference_get(accumulator, j) : 0);
        for (int64_t tile = 0; tile < rows; tile += THREADS_ROW_TILE) {
            double sum = 0;
            for (int64_t r = tile; r < rows && r < tile + THREADS_ROW_TILE; r++)
                sum += reference_get(dy, r * width + j) * reference_get(x, r * width + j) *
                       reference_get(rstd, r);
            reference_set(&c->out[1], j, reference_get(&c->out[1], j) + sum);
        }
    }
}

static void rmsnorm_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gamma = op_in(c, 1), *rstd = op_in(c, 2), *dy = op_in(c, 3);
    const op_arg *accumulator = op_in(c, 4), *dx = &c->out[0];
    double plus = (double)((const rmsnorm_backward_attributes *)c->attributes)->plus;
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    sum_gamma_reference(c); /* before dx, which may live in x or dy */
    for (int64_t r = 0; r < rows; r++) {
        double s = reference_get(rstd, r), sum_un = 0;
        for (int64_t j = 0; j < width; j++) {
            int64_t i = r * width + j;
            sum_un += reference_get(dy, i) * (plus + reference_get(gamma, j)) * reference_get(x, i) * s;
        }
        for (int64_t j = 0; j < width; j++) {
            int64_t i = r * width + j;
            double u = reference_get(dy, i) * (plus + reference_get(gamma, j)),
                   normal = reference_get(x, i) * s;
            double d = s * (u - normal * sum_un / (double)width);
            reference_set(dx, i, (accumulator->data ? reference_get(accumulator, i) : 0) + d);
        }
    }
}

/* A row, and the types of what belongs to it: constants wherever this is inlined. */
typedef struct {
    dtype of_x, of_dy; /* x, before and dx; dy */
    const void *x, *dy, *before;
    void *dx;
    const float *gamma;
    float rstd, plus;
    int64_t width;
} norm_row;

/* average(u n) */
VECTOR_INLINE float row_average(const norm_row *g) {
    const void *x = g->x, *dy = g->dy;
    const float *gamma = g->gamma, plus = g->plus, rstd = g->rstd;
    const dtype of_x = g->of_x, of_dy = g->of_dy;
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(g->width, i, j, (void)0,
                      lane[j] += fast_get(dy, i + j, of_dy) * (gamma[i + j] + plus) *
                                 (fast_get(x, i + j, of_x) * rstd););
    return vector_lanes_sum(lane) / (float)g->width;
}

/* Everything of a row while it is in the cache; dx last, as it may take the place of x or dy. */
VECTOR_INLINE void row_gradient(const norm_row *g, float *dgamma) {
    const void *x = g->x, *dy = g->dy, *before = g->before;
    const float *gamma = g->gamma, plus = g->plus, s = g->rstd, average = row_average(g);
    const dtype of_x = g->of_x, of_dy = g->of_dy;
    int64_t width = g->width;
    void *dx = g->dx;
    for (int64_t j = 0; j < width; j++) dgamma[j] += fast_get(dy, j, of_dy) * (fast_get(x, j, of_x) * s);
    if (before) {
#pragma GCC ivdep
        for (int64_t j = 0; j < width; j++)
            fast_put(dx, j,
                     fast_get(before, j, of_x) + s * (fast_get(dy, j, of_dy) * (gamma[j] + plus) -
                                                      fast_get(x, j, of_x) * s * average),
                     of_x);
    } else {
#pragma GCC ivdep
        for (int64_t j = 0; j < width; j++)
            fast_put(dx, j,
                     s * (fast_get(dy, j, of_dy) * (gamma[j] + plus) - fast_get(x, j, of_x) * s * average),
                     of_x);
    }
}

VECTOR_INLINE void backward_typed(const op_call *c, norm_row g, int64_t first, int64_t last, float *dgamma) {
    const float *rstd = c->in[2].data;
    const void *before = op_in(c, 4)->data;
    g.gamma = c->in[1].data, g.width = shape_last(&c->in[0].shape);
    g.plus = ((const rmsnorm_backward_attributes *)c->attributes)->plus;
    for (int64_t r = first; r < last; r++) {
        g.x = fast_at(c->in[0].data, r * g.width, g.of_x);
        g.dy = fast_at(c->in[3].data, r * g.width, g.of_dy);
        g.before = before ? fast_at(before, r * g.width, g.of_x) : NULL;
        g.dx = (char *)c->out[0].data + r * g.width * fast_bytes(g.of_x);
        g.rstd = rstd[r];
        row_gradient(&g, dgamma);
    }
}

#define BACKWARD(name, x, dy)                                                                                \
    VECTOR_CLONES static void name(const op_call *c, int64_t first, int64_t last, float *dgamma) {           \
        backward_typed(c, (norm_row){ .of_x = x, .of_dy = dy }, first, last, dgamma);                        \
    }
BACKWARD(backward_f32, DTYPE_F32, DTYPE_F32)
BACKWARD(backward_bf16, DTYPE_BF16, DTYPE_BF16)
BACKWARD(backward_of_bf16, DTYPE_F32, DTYPE_BF16)

static void backward_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    backward_f32(c, first, last, sums);
}

static void run_backward(const op_call *c, row_tiles_body *body) {
    row_tiles_run(&(row_tiles){ .call = c,
                                .rows = shape_rows(&c->in[0].shape),
                                .width = shape_last(&c->in[0].shape),
                                .count = 1,
                                .sum = { { op_in(c, 5)->data, c->out[1].data } },
                                .body = body });
}

static void rmsnorm_backward_fast(const op_call *c) { run_backward(c, backward_rows); }

static uint64_t rmsnorm_backward_scratch(const op_call *c, int threads) {
    (void)threads;
    return row_tiles_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 1);
}

/* dgamma and its accumulator are f32 and summed apart. */
static widened backward_by_rows(const op_call *c) {
    return (widened){ .rows = shape_rows(&c->in[0].shape),
                      .whole_in = 1u << 1 | 1u << 5,
                      .whole_out = 1u << 1,
                      .own = units_align(rmsnorm_backward_scratch(c, 1), 64) };
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

static uint64_t rmsnorm_backward_widened_scratch(const op_call *c, int threads) {
    widened how = backward_by_rows(c);
    return widened_scratch(c, &how, threads);
}

static void rmsnorm_backward_widened(const op_call *c) { run_backward(c, backward_widened_rows); }

/* dy of bf16, and x with what goes with it of bf16 or f32. */
static bool backward_accepts_bf16(const op_call *c) {
    dtype x = c->in[0].dtype, before = op_in(c, 4)->dtype;
    return c->in[3].dtype == DTYPE_BF16 && (x == DTYPE_F32 || x == DTYPE_BF16) && c->out[0].dtype == x &&
           (before == DTYPE_NONE || before == x) && c->in[1].dtype == DTYPE_F32;
}

static void backward_bf16_rows(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    (void)thread;
    (c->in[0].dtype == DTYPE_F32 ? backward_of_bf16 : backward_bf16)(c, first, last, sums);
}

static void rmsnorm_backward_bf16(const op_call *c) { run_backward(c, backward_bf16_rows); }

const op_kernel rmsnorm_backward_cpu[] = {
    { "rmsnorm_backward_cpu_rows", fast_accepts, rmsnorm_backward_scratch, rmsnorm_backward_fast },
    { "rmsnorm_backward_cpu_bf16", backward_accepts_bf16, rmsnorm_backward_scratch, rmsnorm_backward_bf16 },
    { "rmsnorm_backward_cpu_widened", widened_accepts, rmsnorm_backward_widened_scratch,
      rmsnorm_backward_widened },
    { "rmsnorm_backward_reference", NULL, NULL, rmsnorm_backward_reference },
    { 0 }
};
