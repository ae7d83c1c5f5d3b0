#include "ops/reference.h"
#include "ops/relu/relu.h"
#include "ops/widened.h"

static void relu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double x = reference_get(op_in(c, 0), i);
        reference_set(&c->out[0], i, x < 0 ? 0 : x);
    }
}

static void relu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double d = reference_get(op_in(c, 1), i);
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i) > 0 ? d : 0);
    }
}

VECTOR_CLONES static void relu_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

static void relu_fast(const op_call *c) { fast_for_elements(c, relu_piece); }
static void relu_widened(const op_call *c) { widened_elements(c, relu_piece); }

VECTOR_CLONES static void relu_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *y = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) {
        float d = dy[i];
        dx[i] = y[i] > 0 ? d : 0;
    }
}

static void relu_backward_fast(const op_call *c) { fast_for_elements(c, relu_backward_piece); }
static void relu_backward_widened(const op_call *c) { widened_elements(c, relu_backward_piece); }

const op_kernel relu_cpu[] = { { "relu_cpu_vector", fast_accepts, NULL, relu_fast },
                               { "relu_cpu_widened", widened_accepts, widened_elements_scratch,
                                 relu_widened },
                               { "relu_reference", NULL, NULL, relu_reference },
                               { 0 } };
const op_kernel relu_backward_cpu[] = {
    { "relu_backward_cpu_vector", fast_accepts, NULL, relu_backward_fast },
    { "relu_backward_cpu_widened", widened_accepts, widened_elements_scratch, relu_backward_widened },
    { "relu_backward_reference", NULL, NULL, relu_backward_reference },
    { 0 }
};
