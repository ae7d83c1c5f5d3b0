#include "ops/add/add.h"
#include "ops/fast.h"
#include "ops/reference.h"

static void add_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i) + reference_get(op_in(c, 1), i));
}

VECTOR_CLONES static void add_piece(const op_call *c, int64_t first, int64_t last) {
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) y[i] = a[i] + b[i];
}

static void add_fast(const op_call *c) { fast_for_elements(c, add_piece); }

const op_kernel add_cpu[] = { { "add_cpu_vector", fast_accepts, NULL, add_fast },
                              { "add_reference", NULL, NULL, add_reference },
                              { 0 } };
