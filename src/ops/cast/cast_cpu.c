#include "ops/cast/cast.h"
#include "ops/fast.h"
#include "ops/reference.h"

static void cast_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i));
}

/* Widening and narrowing between f32 and f64. */
static bool accepts(const op_call *c) {
    dtype from = c->in[0].dtype, to = c->out[0].dtype;
    return (from == DTYPE_F32 && to == DTYPE_F64) || (from == DTYPE_F64 && to == DTYPE_F32);
}

VECTOR_CLONES static void cast_piece(const op_call *c, int64_t first, int64_t last) {
    if (c->in[0].dtype == DTYPE_F32) {
        const float *x = c->in[0].data;
        double *y = c->out[0].data;
        for (int64_t i = first; i < last; i++) y[i] = (double)x[i];
    } else {
        const double *x = c->in[0].data;
        float *y = c->out[0].data;
        for (int64_t i = first; i < last; i++) y[i] = (float)x[i];
    }
}

static void cast_fast(const op_call *c) { fast_for_elements(c, cast_piece); }

const op_kernel cast_cpu[] = { { "cast_cpu_vector", accepts, NULL, cast_fast },
                               { "cast_reference", NULL, NULL, cast_reference },
                               { 0 } };
