#include "ops/clamp/clamp.h"
#include "ops/clamp/clamp_math.h"
#include "ops/reference.h"
#include "ops/widened.h"

static float bound_of(const op_call *c) { return ((const clamp_attributes *)c->attributes)->bound; }

static void clamp_reference(const op_call *c) {
    double bound = (double)bound_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double x = reference_get(op_in(c, 0), i);
        reference_set(&c->out[0], i, x > bound ? bound : x < -bound ? -bound : x);
    }
}

VECTOR_CLONES static void clamp_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data, bound = bound_of(c);
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = clamp_value_f32(x[i], bound);
}

static void clamp_fast(const op_call *c) { fast_for_elements(c, clamp_piece); }
static void clamp_widened(const op_call *c) { widened_elements(c, clamp_piece); }

static void clamp_backward_reference(const op_call *c) {
    double bound = (double)bound_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double x = reference_get(op_in(c, 0), i), dy = reference_get(op_in(c, 1), i);
        reference_set(&c->out[0], i, x < -bound || x > bound ? 0 : dy);
    }
}

VECTOR_CLONES static void clamp_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data, bound = bound_of(c);
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) {
        float d = dy[i];
        dx[i] = clamp_slope_f32(x[i], d, bound);
    }
}

static void clamp_backward_fast(const op_call *c) { fast_for_elements(c, clamp_backward_piece); }
static void clamp_backward_widened(const op_call *c) { widened_elements(c, clamp_backward_piece); }

const op_kernel clamp_cpu[] = { { "clamp_cpu_vector", fast_accepts, NULL, clamp_fast },
                                { "clamp_cpu_widened", widened_accepts, widened_elements_scratch,
                                  clamp_widened },
                                { "clamp_reference", NULL, NULL, clamp_reference },
                                { 0 } };
const op_kernel clamp_backward_cpu[] = {
    { "clamp_backward_cpu_vector", fast_accepts, NULL, clamp_backward_fast },
    { "clamp_backward_cpu_widened", widened_accepts, widened_elements_scratch, clamp_backward_widened },
    { "clamp_backward_reference", NULL, NULL, clamp_backward_reference },
    { 0 }
};
