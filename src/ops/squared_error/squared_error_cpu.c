/* A number for each sample of a batch: plain loops are fast enough. */
#include "base/threads.h"
#include "ops/reference.h"
#include "ops/squared_error/squared_error.h"

static void squared_error_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *target = op_in(c, 1), *accumulator = op_in(c, 3), *loss = &c->out[0];
    double scale = reference_get(op_in(c, 2), 0);
    reference_set(loss, 0, accumulator->data ? reference_get(accumulator, 0) : 0);
    for (int64_t tile = 0, n = shape_elements(&x->shape); tile < n; tile += THREADS_ROW_TILE) {
        double sum = 0;
        for (int64_t i = tile; i < n && i < tile + THREADS_ROW_TILE; i++) {
            double away = reference_get(x, i) - reference_get(target, i);
            sum += away * away;
        }
        reference_set(loss, 0, reference_get(loss, 0) + scale * sum);
    }
}

static void squared_error_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *target = op_in(c, 1);
    double slope = 2 * reference_get(op_in(c, 2), 0) * reference_get(op_in(c, 3), 0);
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++)
        reference_set(&c->out[0], i, slope * (reference_get(x, i) - reference_get(target, i)));
}

const op_kernel squared_error_cpu[] = { { "squared_error_reference", NULL, NULL, squared_error_reference },
                                        { 0 } };
const op_kernel squared_error_backward_cpu[] = {
    { "squared_error_backward_reference", NULL, NULL, squared_error_backward_reference }, { 0 }
};
