#include "ops/gated/gated.h"
#include "ops/gated/gated_math.h"
#include "ops/reference.h"
#include "ops/widened.h"

static gated_function function_of(const op_call *c) {
    return (gated_function)((const gated_attributes *)c->attributes)->function;
}

static void gated_reference(const op_call *c) {
    gated_function f = function_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      gated_value(f, reference_get(op_in(c, 0), i)) * reference_get(op_in(c, 1), i));
}

static void gated_backward_reference(const op_call *c) {
    gated_function f = function_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double gate = reference_get(op_in(c, 0), i), up = reference_get(op_in(c, 1), i);
        double dy = reference_get(op_in(c, 2), i);
        reference_set(&c->out[0], i, dy * up * gated_slope(f, gate));
        reference_set(&c->out[1], i, dy * gated_value(f, gate));
    }
}

/* ---- vectors: the function is a constant wherever these are inlined ---- */

VECTOR_INLINE void forward(const op_call *c, const gated_function f, int64_t first, int64_t last) {
    const float *gate = c->in[0].data, *up = c->in[1].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = gated_value_f32(f, gate[i]) * up[i];
}

/* Results may live where operands do, so an element is read before it is written. */
VECTOR_INLINE void backward(const op_call *c, const gated_function f, int64_t first, int64_t last) {
    const float *gate = c->in[0].data, *up = c->in[1].data, *dy = c->in[2].data;
    float *dgate = c->out[0].data, *dup = c->out[1].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) {
        float x = gate[i], d = dy[i], of_gate = d * up[i] * gated_slope_f32(f, x);
        dup[i] = d * gated_value_f32(f, x);
        dgate[i] = of_gate;
    }
}

VECTOR_CLONES static void gated_piece(const op_call *c, int64_t first, int64_t last) {
    switch (function_of(c)) {
    case GATED_SILU: forward(c, GATED_SILU, first, last); break;
    case GATED_GELU_TANH: forward(c, GATED_GELU_TANH, first, last); break;
    case GATED_GELU_ERF: forward(c, GATED_GELU_ERF, first, last); break;
    }
}

VECTOR_CLONES static void gated_backward_piece(const op_call *c, int64_t first, int64_t last) {
    switch (function_of(c)) {
    case GATED_SILU: backward(c, GATED_SILU, first, last); break;
    case GATED_GELU_TANH: backward(c, GATED_GELU_TANH, first, last); break;
    case GATED_GELU_ERF: backward(c, GATED_GELU_ERF, first, last); break;
    }
}

static void gated_fast(const op_call *c) { fast_for_elements(c, gated_piece); }
static void gated_widened(const op_call *c) { widened_elements(c, gated_piece); }
static void gated_backward_fast(const op_call *c) { fast_for_elements(c, gated_backward_piece); }
static void gated_backward_widened(const op_call *c) { widened_elements(c, gated_backward_piece); }

const op_kernel gated_cpu[] = { { "gated_cpu_vector", fast_accepts, NULL, gated_fast },
                                { "gated_cpu_widened", widened_accepts, widened_elements_scratch,
                                  gated_widened },
                                { "gated_reference", NULL, NULL, gated_reference },
                                { 0 } };
const op_kernel gated_backward_cpu[] = {
    { "gated_backward_cpu_vector", fast_accepts, NULL, gated_backward_fast },
    { "gated_backward_cpu_widened", widened_accepts, widened_elements_scratch, gated_backward_widened },
    { "gated_backward_reference", NULL, NULL, gated_backward_reference },
    { 0 }
};
