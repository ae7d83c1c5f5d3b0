#include "ops/gelu/gelu.h"
#include "ops/gelu/gelu_math.h"
#include "ops/half_table.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void gelu_reference(const op_call *c) {
    const gelu_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        double v = reference_get(x, i);
        reference_set(y, i, a->tanh ? gelu_tanh(v) : gelu_erf(v));
    }
}

VECTOR_INLINE void forward(const op_call *c, int64_t first, int64_t last, const dtype from, const dtype to) {
    const void *x = c->in[0].data;
    void *y = c->out[0].data;
    if (((const gelu_attributes *)c->attributes)->tanh) {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) fast_put(y, i, gelu_tanh_f32(fast_get(x, i, from)), to);
    } else {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) fast_put(y, i, gelu_erf_f32(fast_get(x, i, from)), to);
    }
}

FAST_TYPED(gelu_piece, forward, DTYPE_F32, DTYPE_F32)
FAST_TYPED(gelu_bf16_piece, forward, DTYPE_BF16, DTYPE_BF16)

static bool accepts_bf16(const op_call *c) { return fast_is_all(c, DTYPE_BF16); }
static void gelu_fast(const op_call *c) { fast_for_elements(c, gelu_piece); }
static void gelu_bf16(const op_call *c) { fast_for_elements(c, gelu_bf16_piece); }
static void gelu_widened(const op_call *c) { widened_elements(c, gelu_piece); }
static void gelu_table(const op_call *c) {
    half_table_map(c, (half_table_bodies){ gelu_piece, gelu_bf16_piece });
}

static void gelu_backward_reference(const op_call *c) {
    const gelu_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1), *dx = &c->out[0];
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        double v = reference_get(x, i);
        reference_set(dx, i, reference_get(dy, i) * (a->tanh ? gelu_tanh_slope(v) : gelu_erf_slope(v)));
    }
}

VECTOR_INLINE void backward(const op_call *c, int64_t first, int64_t last, const dtype from, const dtype to) {
    const void *x = c->in[0].data, *dy = c->in[1].data;
    void *dx = c->out[0].data;
    if (((const gelu_attributes *)c->attributes)->tanh) {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++)
            fast_put(dx, i, fast_get(dy, i, from) * gelu_tanh_slope_f32(fast_get(x, i, from)), to);
    } else {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++)
            fast_put(dx, i, fast_get(dy, i, from) * gelu_erf_slope_f32(fast_get(x, i, from)), to);
    }
}

FAST_TYPED(gelu_backward_piece, backward, DTYPE_F32, DTYPE_F32)
FAST_TYPED(gelu_backward_bf16_piece, backward, DTYPE_BF16, DTYPE_BF16)

static void gelu_backward_fast(const op_call *c) { fast_for_elements(c, gelu_backward_piece); }
static void gelu_backward_bf16(const op_call *c) { fast_for_elements(c, gelu_backward_bf16_piece); }
static void gelu_backward_widened(const op_call *c) { widened_elements(c, gelu_backward_piece); }
static void gelu_backward_table(const op_call *c) {
    half_table_product(c, (half_table_bodies){ gelu_backward_piece, gelu_backward_bf16_piece });
}

const op_kernel gelu_cpu[] = { { "gelu_cpu_vector", fast_accepts, NULL, gelu_fast },
                               { "gelu_cpu_table", half_table_accepts, half_table_map_scratch, gelu_table },
                               { "gelu_cpu_bf16", accepts_bf16, NULL, gelu_bf16 },
                               { "gelu_cpu_widened", widened_accepts, widened_elements_scratch,
                                 gelu_widened },
                               { "gelu_reference", NULL, NULL, gelu_reference },
                               { 0 } };
const op_kernel gelu_backward_cpu[] = {
    { "gelu_backward_cpu_vector", fast_accepts, NULL, gelu_backward_fast },
    { "gelu_backward_cpu_table", half_table_accepts, half_table_product_scratch, gelu_backward_table },
    { "gelu_backward_cpu_bf16", accepts_bf16, NULL, gelu_backward_bf16 },
    { "gelu_backward_cpu_widened", widened_accepts, widened_elements_scratch, gelu_backward_widened },
    { "gelu_backward_reference", NULL, NULL, gelu_backward_reference },
    { 0 }
};
