#include "ops/reference.h"
#include "ops/sigmoid/sigmoid.h"
#include "ops/sigmoid/sigmoid_math.h"
#include "ops/widened.h"

static void sigmoid_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, sigmoid_value(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void sigmoid_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = sigmoid_value_f32(x[i]);
}

static void sigmoid_fast(const op_call *c) { fast_for_elements(c, sigmoid_piece); }
static void sigmoid_widened(const op_call *c) { widened_elements(c, sigmoid_piece); }

static void sigmoid_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 1), i) * sigmoid_slope(reference_get(op_in(c, 0), i)));
}

VECTOR_CLONES static void sigmoid_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *y = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) dx[i] = dy[i] * sigmoid_slope_f32(y[i]);
}

static void sigmoid_backward_fast(const op_call *c) { fast_for_elements(c, sigmoid_backward_piece); }
static void sigmoid_backward_widened(const op_call *c) { widened_elements(c, sigmoid_backward_piece); }

const op_kernel sigmoid_cpu[] = { { "sigmoid_cpu_vector", fast_accepts, NULL, sigmoid_fast },
                                  { "sigmoid_cpu_widened", widened_accepts, widened_elements_scratch,
                                    sigmoid_widened },
                                  { "sigmoid_reference", NULL, NULL, sigmoid_reference },
                                  { 0 } };
const op_kernel sigmoid_backward_cpu[] = {
    { "sigmoid_backward_cpu_vector", fast_accepts, NULL, sigmoid_backward_fast },
    { "sigmoid_backward_cpu_widened", widened_accepts, widened_elements_scratch, sigmoid_backward_widened },
    { "sigmoid_backward_reference", NULL, NULL, sigmoid_backward_reference },
    { 0 }
};
