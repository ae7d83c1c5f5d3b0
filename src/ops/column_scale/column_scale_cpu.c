#include "ops/column_scale/column_scale.h"
#include "ops/reference.h"

static void column_scale_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape);
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(x, i) * reference_get(op_in(c, 1), i % width));
}

/* dx may live where x or dy does: a column's sum comes before. */
static void column_scale_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *gamma = op_in(c, 1), *dy = op_in(c, 2), *before = op_in(c, 3);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape);
    for (int64_t i = 0; i < width; i++) {
        double sum = before->data ? reference_get(before, i) : 0, by = reference_get(gamma, i);
        for (int64_t r = 0; r < rows; r++)
            sum += reference_get(x, r * width + i) * reference_get(dy, r * width + i);
        for (int64_t r = 0; r < rows; r++)
            reference_set(&c->out[1], r * width + i, by * reference_get(dy, r * width + i));
        reference_set(&c->out[0], i, sum);
    }
}

const op_kernel column_scale_cpu[] = { { "column_scale_reference", NULL, NULL, column_scale_reference },
                                       { 0 } };
const op_kernel column_scale_backward_cpu[] = {
    { "column_scale_backward_reference", NULL, NULL, column_scale_backward_reference }, { 0 }
};
