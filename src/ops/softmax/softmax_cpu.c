#include <math.h>
#include <string.h>

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

/* Many lanes, as each waits for the one before; their order does not show. */
VECTOR_INLINE float row_maximum_typed(const void *x, int64_t n, const dtype type) {
    enum { LANES = 2 * VECTOR_STEP };
    float lane[LANES], largest = -INFINITY;
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float at = fast_get(x, i + l, type);
            lane[l] = at > lane[l] ? at : lane[l];
        }
    for (; i < n; i++) largest = fast_get(x, i, type) > largest ? fast_get(x, i, type) : largest;
    for (int l = 0; l < LANES; l++) largest = lane[l] > largest ? lane[l] : largest;
    return largest;
}

/* y may be x. */
VECTOR_INLINE float row_exponentials_typed(const void *x, float *y, int64_t n, float top, const dtype type) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, (void)0, y[i + j] = vector_exp_bounded(fast_get(x, i + j, type) - top);
                      lane[j] += y[i + j];);
    return vector_lanes_sum(lane);
}

VECTOR_INLINE void row_scale_typed(const float *x, void *y, int64_t n, float factor, const dtype type) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) fast_put(y, i, x[i] * factor, type);
}

VECTOR_CLONES static float row_maximum(const float *x, int64_t n) {
    return row_maximum_typed(x, n, DTYPE_F32);
}
VECTOR_CLONES static float row_exponentials(const float *x, float *y, int64_t n, float top) {
    return row_exponentials_typed(x, y, n, top, DTYPE_F32);
}
VECTOR_CLONES static void row_scale(float *y, int64_t n, float factor) {
    row_scale_typed(y, y, n, factor, DTYPE_F32);
}
VECTOR_CLONES static float row_maximum_bf16(const uint16_t *x, int64_t n) {
    return row_maximum_typed(x, n, DTYPE_BF16);
}
VECTOR_CLONES static float row_exponentials_bf16(const uint16_t *x, float *y, int64_t n, float top) {
    return row_exponentials_typed(x, y, n, top, DTYPE_BF16);
}
VECTOR_CLONES static void row_scale_bf16(const float *x, uint16_t *y, int64_t n, float factor) {
    row_scale_typed(x, y, n, factor, DTYPE_BF16);
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

/* Exponentials of a row wait in the first cache until their sum is known. */
enum { KEPT = 4096 };

static void forward_bf16_rows(const op_call *c, int64_t first, int64_t last) {
    int64_t n = shape_last(&c->out[0].shape);
    float kept[KEPT];
    for (int64_t row = first; row < last; row++) {
        const uint16_t *x = (const uint16_t *)c->in[0].data + row * n;
        uint16_t *y = (uint16_t *)c->out[0].data + row * n;
        float top = row_maximum_bf16(x, n);
        if (top == -INFINITY)
            memset(y, 0, (size_t)n * sizeof *y);
        else
            row_scale_bf16(kept, y, n, 1.0f / row_exponentials_bf16(x, kept, n, top));
    }
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
static void softmax_bf16(const op_call *c) { run_rows(c, forward_bf16_rows); }
static bool accepts_bf16(const op_call *c) {
    return fast_is_all(c, DTYPE_BF16) && shape_last(&c->out[0].shape) <= KEPT;
}
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
                                  { "softmax_cpu_bf16", accepts_bf16, NULL, softmax_bf16 },
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
