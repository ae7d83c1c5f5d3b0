#include <math.h>

#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/soft_cross_entropy/soft_cross_entropy.h"
#include "ops/soft_cross_entropy/soft_cross_entropy_math.h"
#include "ops/widened.h"

static double weight_of(const op_call *c) {
    return reference_get(op_in(c, 2), 0) *
           (double)((const soft_cross_entropy_attributes *)c->attributes)->weight;
}

/* The loss from those of the rows: tile sums in double, one tile after the other. */
static void sum_tiles(const op_call *c) {
    const op_arg *terms = &c->out[2], *accumulator = op_in(c, 3), *loss = &c->out[0];
    double weight = weight_of(c);
    reference_set(loss, 0, accumulator->data ? reference_get(accumulator, 0) : 0);
    for (int64_t tile = 0, rows = shape_elements(&terms->shape); tile < rows; tile += THREADS_ROW_TILE) {
        double sum = 0;
        for (int64_t r = tile; r < rows && r < tile + THREADS_ROW_TILE; r++) sum += reference_get(terms, r);
        reference_set(loss, 0, reference_get(loss, 0) + weight * sum);
    }
}

static void soft_cross_entropy_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *target = op_in(c, 1);
    int64_t rows = shape_rows(&x->shape), classes = shape_last(&x->shape);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r * classes;
        double largest = reference_get(x, at), sum = 0, term = 0;
        for (int64_t j = 1; j < classes; j++) largest = fmax(largest, reference_get(x, at + j));
        for (int64_t j = 0; j < classes; j++) sum += exp(reference_get(x, at + j) - largest);
        double lse = largest + log(sum);
        for (int64_t j = 0; j < classes; j++)
            term += reference_get(target, at + j) * (lse - reference_get(x, at + j));
        reference_set(&c->out[1], r, lse);
        reference_set(&c->out[2], r, term);
    }
    sum_tiles(c);
}

VECTOR_INLINE float row_largest(const float *x, int64_t n) {
    float high[VECTOR_STEP], largest = x[0];
    int64_t i = 0;
    for (int j = 0; j < VECTOR_STEP; j++) high[j] = largest;
    for (; i + VECTOR_STEP <= n; i += VECTOR_STEP)
        for (int j = 0; j < VECTOR_STEP; j++) high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (int j = 0; j < VECTOR_STEP; j++) largest = high[j] > largest ? high[j] : largest;
    return largest;
}

VECTOR_CLONES static void loss_rows(const op_call *c, int64_t first, int64_t last) {
    int64_t classes = shape_last(&c->in[0].shape);
    float *lse = c->out[1].data, *terms = c->out[2].data, lane[VECTOR_LANES];
    for (int64_t r = first; r < last; r++) {
        const float *x = (const float *)c->in[0].data + r * classes;
        const float *t = (const float *)c->in[1].data + r * classes;
        float largest = row_largest(x, classes);
        vector_lanes_clear(lane);
        VECTOR_OVER_LANES(classes, i, j, (void)0,
                          lane[j] += soft_cross_entropy_exponential(x[i + j], largest););
        float of_row = lse[r] = soft_cross_entropy_lse(largest, vector_lanes_sum(lane));
        vector_lanes_clear(lane);
        VECTOR_OVER_LANES(classes, i, j, (void)0,
                          lane[j] += soft_cross_entropy_term(x[i + j], t[i + j], of_row););
        terms[r] = vector_lanes_sum(lane);
    }
}

static void soft_cross_entropy_fast(const op_call *c) {
    fast_for(c, shape_rows(&c->in[0].shape), fast_rows(shape_last(&c->in[0].shape)), loss_rows);
    sum_tiles(c);
}

/* Rows of logits and targets; the numbers and the loss are nobody's. */
static widened by_rows(const op_call *c, uint32_t whole_in, uint32_t whole_out) {
    return (widened){ .rows = shape_rows(&c->in[0].shape), .whole_in = whole_in, .whole_out = whole_out };
}

static uint64_t soft_cross_entropy_widened_scratch(const op_call *c, int threads) {
    widened how = by_rows(c, 1u << 2 | 1u << 3, 1);
    return widened_scratch(c, &how, threads);
}

static void soft_cross_entropy_widened(const op_call *c) {
    widened how = by_rows(c, 1u << 2 | 1u << 3, 1);
    widened_run(c, &how, loss_rows);
    sum_tiles(c);
}

const op_kernel soft_cross_entropy_cpu[] = {
    { "soft_cross_entropy_cpu_rows", fast_accepts, NULL, soft_cross_entropy_fast },
    { "soft_cross_entropy_cpu_widened", widened_accepts, soft_cross_entropy_widened_scratch,
      soft_cross_entropy_widened },
    { "soft_cross_entropy_reference", NULL, NULL, soft_cross_entropy_reference },
    { 0 }
};

/* ---- the gradient ---- */

static void soft_cross_entropy_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *target = op_in(c, 1);
    int64_t rows = shape_rows(&x->shape), classes = shape_last(&x->shape);
    double factor = weight_of(c) * reference_get(op_in(c, 4), 0);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r * classes;
        double lse = reference_get(op_in(c, 3), r), all = 0;
        for (int64_t j = 0; j < classes; j++) all += reference_get(target, at + j);
        for (int64_t j = 0; j < classes; j++)
            reference_set(&c->out[0], at + j,
                          factor *
                              (all * exp(reference_get(x, at + j) - lse) - reference_get(target, at + j)));
    }
}

VECTOR_CLONES static void backward_rows(const op_call *c, int64_t first, int64_t last) {
    const float *lse = c->in[3].data;
    float lane[VECTOR_LANES], weight = ((const soft_cross_entropy_attributes *)c->attributes)->weight;
    float factor = *(const float *)c->in[2].data * weight * *(const float *)c->in[4].data;
    int64_t classes = shape_last(&c->in[0].shape);
    for (int64_t r = first; r < last; r++) {
        const float *x = (const float *)c->in[0].data + r * classes;
        const float *t = (const float *)c->in[1].data + r * classes;
        float *dx = (float *)c->out[0].data + r * classes, of_row = lse[r];
        vector_lanes_clear(lane);
        VECTOR_OVER_LANES(classes, i, j, (void)0, lane[j] += t[i + j];);
        float all = vector_lanes_sum(lane);
#pragma GCC ivdep
        for (int64_t j = 0; j < classes; j++)
            dx[j] = soft_cross_entropy_slope(factor, all, x[j], t[j], of_row);
    }
}

static void soft_cross_entropy_backward_fast(const op_call *c) {
    fast_for(c, shape_rows(&c->in[0].shape), fast_rows(shape_last(&c->in[0].shape)), backward_rows);
}

static uint64_t soft_cross_entropy_backward_widened_scratch(const op_call *c, int threads) {
    widened how = by_rows(c, 1u << 2 | 1u << 4, 0);
    return widened_scratch(c, &how, threads);
}

static void soft_cross_entropy_backward_widened(const op_call *c) {
    widened how = by_rows(c, 1u << 2 | 1u << 4, 0);
    widened_run(c, &how, backward_rows);
}

const op_kernel soft_cross_entropy_backward_cpu[] = {
    { "soft_cross_entropy_backward_cpu_rows", fast_accepts, NULL, soft_cross_entropy_backward_fast },
    { "soft_cross_entropy_backward_cpu_widened", widened_accepts, soft_cross_entropy_backward_widened_scratch,
      soft_cross_entropy_backward_widened },
    { "soft_cross_entropy_backward_reference", NULL, NULL, soft_cross_entropy_backward_reference },
    { 0 }
};
