#include "ops/reference.h"
#include "ops/silu/silu.h"
#include "ops/silu/silu_math.h"
#include "ops/widened.h"

static void silu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, silu_value(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void silu_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = silu_value_f32(x[i]);
}

static void silu_fast(const op_call *c) { fast_for_elements(c, silu_piece); }
static void silu_widened(const op_call *c) { widened_elements(c, silu_piece); }

static void silu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 1), i) * silu_slope(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void silu_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) dx[i] = dy[i] * silu_slope_f32(x[i]);
}

static void silu_backward_fast(const op_call *c) { fast_for_elements(c, silu_backward_piece); }
static void silu_backward_widened(const op_call *c) { widened_elements(c, silu_backward_piece); }

const op_kernel silu_cpu[] = { { "silu_cpu_vector", fast_accepts, NULL, silu_fast },
                               { "silu_cpu_widened", widened_accepts, widened_elements_scratch,
                                 silu_widened },
                               { "silu_reference", NULL, NULL, silu_reference },
                               { 0 } };
const op_kernel silu_backward_cpu[] = {
    { "silu_backward_cpu_vector", fast_accepts, NULL, silu_backward_fast },
    { "silu_backward_cpu_widened", widened_accepts, widened_elements_scratch, silu_backward_widened },
    { "silu_backward_reference", NULL, NULL, silu_backward_reference },
    { 0 }
};
