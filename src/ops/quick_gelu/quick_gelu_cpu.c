#include "ops/quick_gelu/quick_gelu.h"
#include "ops/quick_gelu/quick_gelu_math.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void quick_gelu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, quick_gelu_value(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void quick_gelu_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = quick_gelu_value_f32(x[i]);
}

static void quick_gelu_fast(const op_call *c) { fast_for_elements(c, quick_gelu_piece); }
static void quick_gelu_widened(const op_call *c) { widened_elements(c, quick_gelu_piece); }

static void quick_gelu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 1), i) * quick_gelu_slope(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void quick_gelu_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) dx[i] = dy[i] * quick_gelu_slope_f32(x[i]);
}

static void quick_gelu_backward_fast(const op_call *c) { fast_for_elements(c, quick_gelu_backward_piece); }
static void quick_gelu_backward_widened(const op_call *c) { widened_elements(c, quick_gelu_backward_piece); }

const op_kernel quick_gelu_cpu[] = { { "quick_gelu_cpu_vector", fast_accepts, NULL, quick_gelu_fast },
                                     { "quick_gelu_cpu_widened", widened_accepts, widened_elements_scratch,
                                       quick_gelu_widened },
                                     { "quick_gelu_reference", NULL, NULL, quick_gelu_reference },
                                     { 0 } };
const op_kernel quick_gelu_backward_cpu[] = {
    { "quick_gelu_backward_cpu_vector", fast_accepts, NULL, quick_gelu_backward_fast },
    { "quick_gelu_backward_cpu_widened", widened_accepts, widened_elements_scratch,
      quick_gelu_backward_widened },
    { "quick_gelu_backward_reference", NULL, NULL, quick_gelu_backward_reference },
    { 0 }
};
