#include "ops/reference.h"
#include "ops/silu/silu_math.h"
#include "ops/swiglu/swiglu.h"
#include "ops/widened.h"

static void swiglu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      silu_value(reference_get(op_in(c, 0), i)) * reference_get(op_in(c, 1), i));
}

VECTOR_CLONES static void swiglu_piece(const op_call *c, int64_t first, int64_t last) {
    const float *gate = c->in[0].data, *up = c->in[1].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = silu_value_f32(gate[i]) * up[i];
}

static void swiglu_fast(const op_call *c) { fast_for_elements(c, swiglu_piece); }
static void swiglu_widened(const op_call *c) { widened_elements(c, swiglu_piece); }

static void swiglu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double gate = reference_get(op_in(c, 0), i), up = reference_get(op_in(c, 1), i);
        double dy = reference_get(op_in(c, 2), i);
        reference_set(&c->out[0], i, dy * up * silu_slope(gate));
        reference_set(&c->out[1], i, dy * silu_value(gate));
    }
}

VECTOR_CLONES static void swiglu_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *gate = c->in[0].data, *up = c->in[1].data, *dy = c->in[2].data;
    float *dgate = c->out[0].data, *dup = c->out[1].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) {
        float x = gate[i], d = dy[i], s = vector_sigmoid(x);
        float slope = s * (1.0f + x * (1.0f - s));
        float du = d * (x * s);
        dgate[i] = d * up[i] * slope;
        dup[i] = du;
    }
}

static void swiglu_backward_fast(const op_call *c) { fast_for_elements(c, swiglu_backward_piece); }
static void swiglu_backward_widened(const op_call *c) { widened_elements(c, swiglu_backward_piece); }

const op_kernel swiglu_cpu[] = { { "swiglu_cpu_vector", fast_accepts, NULL, swiglu_fast },
                                 { "swiglu_cpu_widened", widened_accepts, widened_elements_scratch,
                                   swiglu_widened },
                                 { "swiglu_reference", NULL, NULL, swiglu_reference },
                                 { 0 } };
const op_kernel swiglu_backward_cpu[] = {
    { "swiglu_backward_cpu_vector", fast_accepts, NULL, swiglu_backward_fast },
    { "swiglu_backward_cpu_widened", widened_accepts, widened_elements_scratch, swiglu_backward_widened },
    { "swiglu_backward_reference", NULL, NULL, swiglu_backward_reference },
    { 0 }
};
