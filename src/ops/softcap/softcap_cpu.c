#include <math.h>

#include "ops/reference.h"
#include "ops/softcap/softcap.h"
#include "ops/softcap/softcap_math.h"
#include "ops/widened.h"

static float cap_of(const op_call *c) { return ((const softcap_attributes *)c->attributes)->cap; }

static void softcap_reference(const op_call *c) {
    double cap = (double)cap_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, cap * tanh(reference_get(op_in(c, 0), i) / cap));
}

VECTOR_CLONES static void softcap_piece(const op_call *c, int64_t first, int64_t last) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data, cap = cap_of(c);
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = softcap_value_f32(x[i], cap);
}

static void softcap_fast(const op_call *c) { fast_for_elements(c, softcap_piece); }
static void softcap_widened(const op_call *c) { widened_elements(c, softcap_piece); }

static void softcap_backward_reference(const op_call *c) {
    double cap = (double)cap_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double t = reference_get(op_in(c, 0), i) / cap;
        reference_set(&c->out[0], i, reference_get(op_in(c, 1), i) * (1 - t * t));
    }
}

VECTOR_CLONES static void softcap_backward_piece(const op_call *c, int64_t first, int64_t last) {
    const float *y = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data, cap = cap_of(c);
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) dx[i] = dy[i] * softcap_slope_f32(y[i], cap);
}

static void softcap_backward_fast(const op_call *c) { fast_for_elements(c, softcap_backward_piece); }
static void softcap_backward_widened(const op_call *c) { widened_elements(c, softcap_backward_piece); }

const op_kernel softcap_cpu[] = { { "softcap_cpu_vector", fast_accepts, NULL, softcap_fast },
                                  { "softcap_cpu_widened", widened_accepts, widened_elements_scratch,
                                    softcap_widened },
                                  { "softcap_reference", NULL, NULL, softcap_reference },
                                  { 0 } };
const op_kernel softcap_backward_cpu[] = {
    { "softcap_backward_cpu_vector", fast_accepts, NULL, softcap_backward_fast },
    { "softcap_backward_cpu_widened", widened_accepts, widened_elements_scratch, softcap_backward_widened },
    { "softcap_backward_reference", NULL, NULL, softcap_backward_reference },
    { 0 }
};
