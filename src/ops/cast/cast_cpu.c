#include "base/half.h"
#include "ops/cast/cast.h"
#include "ops/fast.h"
#include "ops/reference.h"

static void cast_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i));
}

/* Between f32 and a wider or narrower float. */
static bool accepts(const op_call *c) {
    dtype from = c->in[0].dtype, to = c->out[0].dtype;
    if (!dtype_is_float(from) || !dtype_is_float(to) || from == to) return false;
    return from == DTYPE_F32 || to == DTYPE_F32;
}

VECTOR_CLONES static void to_f64(const float *x, int64_t n, double *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (double)x[i];
}

VECTOR_CLONES static void from_f64(const double *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
}

static void cast_piece(const op_call *c, int64_t first, int64_t last) {
    dtype from = c->in[0].dtype, to = c->out[0].dtype;
    const char *x = (const char *)c->in[0].data + (uint64_t)first * dtype_bytes(from);
    char *y = (char *)c->out[0].data + (uint64_t)first * dtype_bytes(to);
    int64_t n = last - first;
    if (dtype_is_half(from))
        half_widen(from, (const void *)x, n, (void *)y);
    else if (dtype_is_half(to))
        half_narrow(to, (const void *)x, n, (void *)y);
    else if (to == DTYPE_F64)
        to_f64((const void *)x, n, (void *)y);
    else
        from_f64((const void *)x, n, (void *)y);
}

static void cast_fast(const op_call *c) { fast_for_elements(c, cast_piece); }

const op_kernel cast_cpu[] = { { "cast_cpu_vector", accepts, NULL, cast_fast },
                               { "cast_reference", NULL, NULL, cast_reference },
                               { 0 } };
