#include "ops/geglu/geglu.h"
#include "ops/gelu/gelu_math.h"
#include "ops/reference.h"
#include "ops/widened.h"

static bool is_tanh(const op_call *c) { return ((const geglu_attributes *)c->attributes)->tanh != 0; }

static void geglu_reference(const op_call *c) {
    bool tanh_form = is_tanh(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double gate = reference_get(op_in(c, 0), i), up = reference_get(op_in(c, 1), i);
        reference_set(&c->out[0], i, (tanh_form ? gelu_tanh(gate) : gelu_erf(gate)) * up);
    }
}

VECTOR_CLONES static void geglu_piece(const op_call *c, int64_t first, int64_t last) {
    const float *gate = c->in[0].data, *up = c->in[1].data;
    float *y = c->out[0].data;
    if (is_tanh(c)) {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) y[i] = gelu_tanh_f32(gate[i]) * up[i];
    } else {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) y[i] = gelu_erf_f32(gate[i]) * up[i];
    }
}

static void geglu_fast(const op_call *c) { fast_for_elements(c, geglu_piece); }
static void geglu_widened(const op_call *c) { widened_elements(c, geglu_piece); }

static void geglu_backward_reference(const op_call *c) {
    bool tanh_form = is_tanh(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double gate = reference_get(op_in(c, 0), i), up = reference_get(op_in(c, 1), i);
        double dy = reference_get(op_in(c, 2), i);
        reference_set(&c->out[0], i, dy * up * (tanh_form ? gelu_tanh_slope(gate) : gelu_erf_slope(gate)));
        reference_set(&c->out[1], i, dy * (tanh_form ? gelu_tanh(gate) : gelu_erf(gate)));
    }
}

/* Results may live where operands do, so an element is read before it is written. */
VECTOR_CLONES static void geglu_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *gate = c->in[0].data, *up = c->in[1].data, *dy = c->in[2].data;
    float *dgate = c->out[0].data, *dup = c->out[1].data;
    if (is_tanh(c)) {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) {
            float x = gate[i], d = dy[i], slope = d * up[i] * gelu_tanh_slope_f32(x);
            dup[i] = d * gelu_tanh_f32(x);
            dgate[i] = slope;
        }
    } else {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) {
            float x = gate[i], d = dy[i], slope = d * up[i] * gelu_erf_slope_f32(x);
            dup[i] = d * gelu_erf_f32(x);
            dgate[i] = slope;
        }
    }
}

static void geglu_backward_fast(const op_call *c) { fast_for_elements(c, geglu_backward_piece); }
static void geglu_backward_widened(const op_call *c) { widened_elements(c, geglu_backward_piece); }

const op_kernel geglu_cpu[] = { { "geglu_cpu_vector", fast_accepts, NULL, geglu_fast },
                                { "geglu_cpu_widened", widened_accepts, widened_elements_scratch,
                                  geglu_widened },
                                { "geglu_reference", NULL, NULL, geglu_reference },
                                { 0 } };
const op_kernel geglu_backward_cpu[] = {
    { "geglu_backward_cpu_vector", fast_accepts, NULL, geglu_backward_fast },
    { "geglu_backward_cpu_widened", widened_accepts, widened_elements_scratch, geglu_backward_widened },
    { "geglu_backward_reference", NULL, NULL, geglu_backward_reference },
    { 0 }
};
