#include "ops/multiply/multiply.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void multiply_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i) * reference_get(op_in(c, 1), i));
}

VECTOR_CLONES static void multiply_piece(const op_call *c, int64_t first, int64_t last) {
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = a[i] * b[i];
}

static void multiply_fast(const op_call *c) { fast_for_elements(c, multiply_piece); }
static void multiply_widened(const op_call *c) { widened_elements(c, multiply_piece); }

const op_kernel multiply_cpu[] = { { "multiply_cpu_vector", fast_accepts, NULL, multiply_fast },
                                   { "multiply_cpu_widened", widened_accepts, widened_elements_scratch,
                                     multiply_widened },
                                   { "multiply_reference", NULL, NULL, multiply_reference },
                                   { 0 } };
