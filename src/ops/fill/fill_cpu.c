#include "ops/fast.h"
#include "ops/fill/fill.h"
#include "ops/reference.h"

static void fill_reference(const op_call *c) {
    const fill_attributes *a = c->attributes;
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, (double)a->value);
}

static bool accepts(const op_call *c) { return c->out[0].dtype == DTYPE_F32; }

VECTOR_CLONES static void fill_piece(const op_call *c, int64_t first, int64_t last) {
    const fill_attributes *a = c->attributes;
    float *y = c->out[0].data, value = a->value;
    for (int64_t i = first; i < last; i++) y[i] = value;
}

static void fill_fast(const op_call *c) { fast_for_elements(c, fill_piece); }

const op_kernel fill_cpu[] = { { "fill_cpu_vector", accepts, NULL, fill_fast },
                               { "fill_reference", NULL, NULL, fill_reference },
                               { 0 } };
