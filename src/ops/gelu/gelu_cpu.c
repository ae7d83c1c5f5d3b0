#include "ops/gelu/gelu.h"
#include "ops/gelu/gelu_math.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void gelu_reference(const op_call *c) {
    const gelu_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        double v = reference_get(x, i);
        reference_set(y, i, a->tanh ? gelu_tanh(v) : gelu_erf(v));
    }
}

VECTOR_CLONES static void gelu_piece(const op_call *c, int64_t first, int64_t last) {
    const gelu_attributes *a = c->attributes;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    if (a->tanh) {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) y[i] = gelu_tanh_f32(x[i]);
    } else {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) y[i] = gelu_erf_f32(x[i]);
    }
}

static void gelu_fast(const op_call *c) { fast_for_elements(c, gelu_piece); }
static void gelu_widened(const op_call *c) { widened_elements(c, gelu_piece); }

static void gelu_backward_reference(const op_call *c) {
    const gelu_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1), *dx = &c->out[0];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        double v = reference_get(x, i);
        reference_set(dx, i, reference_get(dy, i) * (a->tanh ? gelu_tanh_slope(v) : gelu_erf_slope(v)));
    }
}

VECTOR_CLONES static void gelu_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const gelu_attributes *a = c->attributes;
    const float *x = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
    if (a->tanh) {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) dx[i] = dy[i] * gelu_tanh_slope_f32(x[i]);
    } else {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) dx[i] = dy[i] * gelu_erf_slope_f32(x[i]);
    }
}

static void gelu_backward_fast(const op_call *c) { fast_for_elements(c, gelu_backward_piece); }
static void gelu_backward_widened(const op_call *c) { widened_elements(c, gelu_backward_piece); }

const op_kernel gelu_cpu[] = { { "gelu_cpu_vector", fast_accepts, NULL, gelu_fast },
                               { "gelu_cpu_widened", widened_accepts, widened_elements_scratch,
                                 gelu_widened },
                               { "gelu_reference", NULL, NULL, gelu_reference },
                               { 0 } };
const op_kernel gelu_backward_cpu[] = {
    { "gelu_backward_cpu_vector", fast_accepts, NULL, gelu_backward_fast },
    { "gelu_backward_cpu_widened", widened_accepts, widened_elements_scratch, gelu_backward_widened },
    { "gelu_backward_reference", NULL, NULL, gelu_backward_reference },
    { 0 }
};
