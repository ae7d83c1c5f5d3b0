#include "ops/gelu/gelu.h"
#include "ops/gelu/gelu_math.h"
#include "ops/reference.h"

static void gelu_reference(const op_call *c) {
    const gelu_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        double v = reference_get(x, i);
        reference_set(y, i, a->tanh ? gelu_tanh(v) : gelu_erf(v));
    }
}

static void gelu_backward_reference(const op_call *c) {
    const gelu_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1), *dx = &c->out[0];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        double v = reference_get(x, i);
        reference_set(dx, i, reference_get(dy, i) * (a->tanh ? gelu_tanh_slope(v) : gelu_erf_slope(v)));
    }
}

const op_kernel gelu_cpu[] = { { "gelu_reference", NULL, NULL, gelu_reference }, { 0 } };
const op_kernel gelu_backward_cpu[] = { { "gelu_backward_reference", NULL, NULL, gelu_backward_reference }, { 0 } };
