#include "ops/reference.h"
#include "ops/scale/scale.h"
#include "ops/widened.h"

static void scale_reference(const op_call *c) {
    const scale_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *factor = op_in(c, 1);
    double f = (double)a->factor * (factor->data ? reference_get(factor, 0) : 1);
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++)
        reference_set(&c->out[0], i, f * reference_get(x, i));
}

VECTOR_CLONES static void scale_piece(const op_call *c, int64_t first, int64_t last) {
    const scale_attributes *a = c->attributes;
    float f = a->factor * fast_number(op_in(c, 1), 1);
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = first; i < last; i++) y[i] = f * x[i];
}

static void scale_fast(const op_call *c) { fast_for_elements(c, scale_piece); }
static void scale_widened(const op_call *c) { widened_elements(c, scale_piece); }

const op_kernel scale_cpu[] = { { "scale_cpu_vector", fast_accepts, NULL, scale_fast },
                                { "scale_cpu_widened", widened_accepts, widened_elements_scratch,
                                  scale_widened },
                                { "scale_reference", NULL, NULL, scale_reference },
                                { 0 } };
