#include "ops/gated_halves/gated_halves.h"
#include "ops/gelu/gelu_math.h"
#include "ops/reference.h"
#include "ops/silu/silu_math.h"

static gated_function function_of(const op_call *c) {
    return (gated_function)((const gated_attributes *)c->attributes)->function;
}

static double value(gated_function f, double x) {
    return f == GATED_SILU ? silu_value(x) : f == GATED_GELU_TANH ? gelu_tanh(x) : gelu_erf(x);
}

static double slope(gated_function f, double x) {
    return f == GATED_SILU ? silu_slope(x) : f == GATED_GELU_TANH ? gelu_tanh_slope(x) : gelu_erf_slope(x);
}

/* Where the gate of element i of y lies; its partner is `width` further. */
static int64_t gate_at(int64_t i, int64_t width) { return i / width * 2 * width + i % width; }

static void gated_halves_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    int64_t width = shape_last(&y->shape);
    for (int64_t i = 0, n = shape_elements(&y->shape); i < n; i++) {
        int64_t at = gate_at(i, width);
        reference_set(y, i, value(function_of(c), reference_get(x, at)) * reference_get(x, at + width));
    }
}

static void gated_halves_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1);
    int64_t width = shape_last(&dy->shape);
    for (int64_t i = 0, n = shape_elements(&dy->shape); i < n; i++) {
        int64_t at = gate_at(i, width);
        double gate = reference_get(x, at), up = reference_get(x, at + width), d = reference_get(dy, i);
        reference_set(&c->out[0], at, d * up * slope(function_of(c), gate));
        reference_set(&c->out[0], at + width, d * value(function_of(c), gate));
    }
}

const op_kernel gated_halves_cpu[] = { { "gated_halves_reference", NULL, NULL, gated_halves_reference },
                                       { 0 } };
const op_kernel gated_halves_backward_cpu[] = {
    { "gated_halves_backward_reference", NULL, NULL, gated_halves_backward_reference }, { 0 }
};
