#include "ops/reference.h"
#include "ops/row_gate/row_gate.h"
#include "ops/wide_math.h"

static double factor(const op_arg *gate, int64_t row) {
    return 1 / (1 + wide_exp(-reference_get(gate, row)));
}

static void row_gate_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gate = op_in(c, 1);
    int64_t width = shape_last(&x->shape);
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++)
        reference_set(&c->out[0], i, factor(gate, i / width) * reference_get(x, i));
}

/* dx may live where x or dy does, so an element is read before it is written. */
static void row_gate_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gate = op_in(c, 1), *dy = op_in(c, 2);
    int64_t width = shape_last(&x->shape);
    for (int64_t r = 0, rows = shape_rows(&x->shape); r < rows; r++) {
        double by = factor(gate, r), dot = 0;
        for (int64_t i = r * width; i < (r + 1) * width; i++) {
            double d = reference_get(dy, i);
            dot += d * reference_get(x, i);
            reference_set(&c->out[0], i, by * d);
        }
        reference_set(&c->out[1], r, dot * by * (1 - by));
    }
}

const op_kernel row_gate_cpu[] = { { "row_gate_reference", NULL, NULL, row_gate_reference }, { 0 } };
const op_kernel row_gate_backward_cpu[] = {
    { "row_gate_backward_reference", NULL, NULL, row_gate_backward_reference }, { 0 }
};
