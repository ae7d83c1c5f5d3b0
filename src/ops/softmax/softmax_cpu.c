#include <math.h>

#include "base/threads.h"
#include "ops/reference.h"
#include "ops/softmax/softmax.h"
#include "ops/vector_math.h"

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

enum { LANES = 16 };

VECTOR_INLINE float tree_sum(float *lanes) {
    for (int width = LANES / 2; width; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0];
}

VECTOR_CLONES static float row_maximum(const float *x, int64_t n) {
    float lanes[LANES];
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) lanes[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (int l = 0; i + l < n; l++) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (int l = 1; l < LANES; l++) lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
}

VECTOR_CLONES static float row_exponentials(const float *x, float *y, int64_t n, float top) {
    float lanes[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            y[i + l] = vector_exp(x[i + l] - top);
            lanes[l] += y[i + l];
        }
    for (int l = 0; i + l < n; l++) {
        y[i + l] = vector_exp(x[i + l] - top);
        lanes[l] += y[i + l];
    }
    return tree_sum(lanes);
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
    float lanes[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += x[i + l] * y[i + l];
    for (int l = 0; i + l < n; l++) lanes[l] += x[i + l] * y[i + l];
    return tree_sum(lanes);
}

VECTOR_CLONES static void row_slopes(const float *y, const float *dy, float *dx, int64_t n, float sum) {
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
}

/* ---- rows over threads ---- */

enum { TILE_NUMBERS = 16384 }; /* a tile is as many rows as hold about so many numbers */

typedef struct {
    const op_call *call;
    int64_t rows, n, tile;
} row_work;

static row_work work_of(const op_call *c) {
    row_work w = { .call = c, .rows = shape_rows(&c->out[0].shape), .n = shape_last(&c->out[0].shape) };
    w.tile = w.n < TILE_NUMBERS ? TILE_NUMBERS / w.n : 1;
    return w;
}

static void forward_tile(void *context, int64_t index, int thread) {
    const row_work *w = context;
    (void)thread;
    const float *x = op_in(w->call, 0)->data;
    float *y = w->call->out[0].data;
    int64_t last = (index + 1) * w->tile < w->rows ? (index + 1) * w->tile : w->rows;
    for (int64_t row = index * w->tile; row < last; row++)
        softmax_row_f32(x + row * w->n, y + row * w->n, w->n);
}

static void backward_tile(void *context, int64_t index, int thread) {
    const row_work *w = context;
    (void)thread;
    const float *y = op_in(w->call, 0)->data, *dy = op_in(w->call, 1)->data;
    float *dx = w->call->out[0].data;
    int64_t last = (index + 1) * w->tile < w->rows ? (index + 1) * w->tile : w->rows;
    for (int64_t row = index * w->tile; row < last; row++) {
        int64_t at = row * w->n;
        row_slopes(y + at, dy + at, dx + at, w->n, row_inner(y + at, dy + at, w->n));
    }
}

static void softmax_simd(const op_call *c) {
    row_work w = work_of(c);
    threads_for((w.rows + w.tile - 1) / w.tile, forward_tile, &w);
}

static void softmax_backward_simd(const op_call *c) {
    row_work w = work_of(c);
    threads_for((w.rows + w.tile - 1) / w.tile, backward_tile, &w);
}

static bool is_f32(const op_call *c) { return op_in(c, 0)->dtype == DTYPE_F32; }

const op_kernel softmax_cpu[] = { { "softmax_cpu_simd", is_f32, NULL, softmax_simd },
                                  { "softmax_reference", NULL, NULL, softmax_reference },
                                  { 0 } };
const op_kernel softmax_backward_cpu[] = {
    { "softmax_backward_cpu_simd", is_f32, NULL, softmax_backward_simd },
    { "softmax_backward_reference", NULL, NULL, softmax_backward_reference },
    { 0 }
};
