#include <math.h>

#include "ops/quick_gelu/quick_gelu.h"
#include "ops/reference.h"

static double share(double x) { return 1 / (1 + exp(-1.702 * x)); }

static void quick_gelu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double x = reference_get(op_in(c, 0), i);
        reference_set(&c->out[0], i, x * share(x));
    }
}

static void quick_gelu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double x = reference_get(op_in(c, 0), i), s = share(x);
        reference_set(&c->out[0], i, reference_get(op_in(c, 1), i) * s * (1 + 1.702 * x * (1 - s)));
    }
}

const op_kernel quick_gelu_cpu[] = { { "quick_gelu_reference", NULL, NULL, quick_gelu_reference }, { 0 } };
const op_kernel quick_gelu_backward_cpu[] = {
    { "quick_gelu_backward_reference", NULL, NULL, quick_gelu_backward_reference }, { 0 }
};
