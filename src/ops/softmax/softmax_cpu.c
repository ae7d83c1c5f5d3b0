#include <math.h>

#include "ops/reference.h"
#include "ops/softmax/softmax.h"
#include "ops/widened.h"

/* ---- reference ---- */

static void softmax_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    int64_t rows = shape_rows(&x->shape), n = shape_last(&x->shape);
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * n;
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) top = fmax(top, reference_get(x, at + i));
        for (int64_t i = 0; i < n; i++) sum += isinf(top) ? 0 : exp(reference_get(x, at + i) - top);
        for (int64_t i = 0; i < n; i++)
            reference_set(y, at + i, sum > 0 ? exp(reference_get(x, at + i) - top) / sum : 0);
    }
}

static void softmax_backward_reference(const op_call *c) {
    const op_arg *y = op_in(c, 0), *dy = op_in(c, 1), *dx = &c->out[0];
    int64_t rows = shape_rows(&y->shape), n = shape_last(&y->shape);
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * n;
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += reference_get(y, at + i) * reference_get(dy, at + i);
        for (int64_t i = 0; i < n; i++)
            reference_set(dx, at + i, reference_get(y, at + i) * (reference_get(dy, at + i) - sum));
    }
}

/* ---- vectors ---- */

VECTOR_CLONES static float row_maximum(const float *x, int64_t n) {
    enum { LANES = 16 };
    float lane[LANES];
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 0; i + l < n; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 1; l < LANES; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

/* y may be x. */
VECTOR_CLONES static float row_exponentials(const float *x, float *y, int64_t n, float top) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = vector_exp(x[i] - top);
    VECTOR_OVER_LANES(n, i, j, (void)0, lane[j] += y[i + j];);
    return vector_lanes_sum(lane);
}

VECTOR_CLONES static void row_scale(float *y, int64_t n, float factor) {
    for (int64_t i = 0; i < n; i++) y[i] *= factor;
}

void softmax_row_f32(const float *x, float *y, int64_t n) {
    float top = row_maximum(x, n);
    if (top == -INFINITY) {
        for (int64_t i = 0; i < n; i++) y[i] = 0;
        return;
    }
    row_scale(y, n, 1.0f / row_exponentials(x, y, n, top));
}

VECTOR_CLONES static float row_inner(const float *x, const float *y, int64_t n) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, (void)0, lane[j] += x[i + j] * y[i + j];);
    return vector_lanes_sum(lane);
}

VECTOR_CLONES static void row_slopes(const float *y, const float *dy, float *dx, int64_t n, float sum) {
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
}

/* ---- rows over threads ---- */

static void forward_rows(const op_call *c, int64_t first, int64_t last) {
    int64_t n = shape_last(&c->out[0].shape);
    for (int64_t row = first; row < last; row++)
        softmax_row_f32((const float *)c->in[0].data + row * n, (float *)c->out[0].data + row * n, n);
}

static void backward_rows(const op_call *c, int64_t first, int64_t last) {
    int64_t n = shape_last(&c->out[0].shape);
    for (int64_t row = first; row < last; row++) {
        const float *y = (const float *)c->in[0].data + row * n, *dy = (const float *)c->in[1].data + row * n;
        row_slopes(y, dy, (float *)c->out[0].data + row * n, n, row_inner(y, dy, n));
    }
}

static void run_rows(const op_call *c, fast_body body) {
    const shape *s = &c->out[0].shape;
    fast_for(c, shape_rows(s), fast_rows(shape_last(s)), body);
}

static void softmax_simd(const op_call *c) { run_rows(c, forward_rows); }
static void softmax_backward_simd(const op_call *c) { run_rows(c, backward_rows); }

static uint64_t widened_rows_scratch(const op_call *c, int threads) {
    return widened_scratch(c, &(widened){ .rows = shape_rows(&c->out[0].shape) }, threads);
}

static void run_widened(const op_call *c, fast_body body) {
    widened_run(c, &(widened){ .rows = shape_rows(&c->out[0].shape) }, body);
}

static void softmax_widened(const op_call *c) { run_widened(c, forward_rows); }
static void softmax_backward_widened(const op_call *c) { run_widened(c, backward_rows); }

const op_kernel softmax_cpu[] = { { "softmax_cpu_simd", fast_accepts, NULL, softmax_simd },
                                  { "softmax_cpu_widened", widened_accepts, widened_rows_scratch,
                                    softmax_widened },
                                  { "softmax_reference", NULL, NULL, softmax_reference },
                                  { 0 } };
const op_kernel softmax_backward_cpu[] = {
    { "softmax_backward_cpu_simd", fast_accepts, NULL, softmax_backward_simd },
    { "softmax_backward_cpu_widened", widened_accepts, widened_rows_scratch, softmax_backward_widened },
    { "softmax_backward_reference", NULL, NULL, softmax_backward_reference },
    { 0 }
};
