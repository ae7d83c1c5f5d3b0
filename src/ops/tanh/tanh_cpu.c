#include "ops/reference.h"
#include "ops/tanh/tanh.h"
#include "ops/tanh/tanh_math.h"
#include "ops/widened.h"

static void tanh_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, tanh(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void tanh_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = tanh_value_f32(x[i]);
}

static void tanh_fast(const op_call *c) { fast_for_elements(c, tanh_piece); }
static void tanh_widened(const op_call *c) { widened_elements(c, tanh_piece); }

static void tanh_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 1), i) * tanh_slope(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void tanh_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *y = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) dx[i] = dy[i] * tanh_slope_f32(y[i]);
}

static void tanh_backward_fast(const op_call *c) { fast_for_elements(c, tanh_backward_piece); }
static void tanh_backward_widened(const op_call *c) { widened_elements(c, tanh_backward_piece); }

const op_kernel tanh_cpu[] = { { "tanh_cpu_vector", fast_accepts, NULL, tanh_fast },
                               { "tanh_cpu_widened", widened_accepts, widened_elements_scratch,
                                 tanh_widened },
                               { "tanh_reference", NULL, NULL, tanh_reference },
                               { 0 } };
const op_kernel tanh_backward_cpu[] = {
    { "tanh_backward_cpu_vector", fast_accepts, NULL, tanh_backward_fast },
    { "tanh_backward_cpu_widened", widened_accepts, widened_elements_scratch, tanh_backward_widened },
    { "tanh_backward_reference", NULL, NULL, tanh_backward_reference },
    { 0 }
};
