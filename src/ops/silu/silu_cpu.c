#include "ops/half_table.h"
#include "ops/reference.h"
#include "ops/silu/silu.h"
#include "ops/silu/silu_math.h"
#include "ops/widened.h"

static void silu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, silu_value(reference_get(op_in(c, 0), i)));
}

VECTOR_INLINE void forward(const op_call *c, int64_t first, int64_t last, const dtype from, const dtype to) {
    const void *x = c->in[0].data;
    void *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) fast_put(y, i, silu_value_f32(fast_get(x, i, from)), to);
}

FAST_TYPED(silu_piece, forward, DTYPE_F32, DTYPE_F32)
FAST_TYPED(silu_bf16_piece, forward, DTYPE_BF16, DTYPE_BF16)

static bool accepts_bf16(const op_call *c) { return fast_is_all(c, DTYPE_BF16); }
static void silu_fast(const op_call *c) { fast_for_elements(c, silu_piece); }
static void silu_bf16(const op_call *c) { fast_for_elements(c, silu_bf16_piece); }
static void silu_widened(const op_call *c) { widened_elements(c, silu_piece); }
static void silu_table(const op_call *c) {
    half_table_map(c, (half_table_bodies){ silu_piece, silu_bf16_piece });
}

static void silu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 1), i) * silu_slope(reference_get(op_in(c, 0), i)));
}

VECTOR_INLINE void backward(const op_call *c, int64_t first, int64_t last, const dtype from, const dtype to) {
    const void *x = c->in[0].data, *dy = c->in[1].data;
    void *dx = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++)
        fast_put(dx, i, fast_get(dy, i, from) * silu_slope_f32(fast_get(x, i, from)), to);
}

FAST_TYPED(silu_backward_piece, backward, DTYPE_F32, DTYPE_F32)
FAST_TYPED(silu_backward_bf16_piece, backward, DTYPE_BF16, DTYPE_BF16)

static void silu_backward_fast(const op_call *c) { fast_for_elements(c, silu_backward_piece); }
static void silu_backward_bf16(const op_call *c) { fast_for_elements(c, silu_backward_bf16_piece); }
static void silu_backward_widened(const op_call *c) { widened_elements(c, silu_backward_piece); }
static void silu_backward_table(const op_call *c) {
    half_table_product(c, (half_table_bodies){ silu_backward_piece, silu_backward_bf16_piece });
}

const op_kernel silu_cpu[] = { { "silu_cpu_vector", fast_accepts, NULL, silu_fast },
                               { "silu_cpu_table", half_table_accepts, half_table_map_scratch, silu_table },
                               { "silu_cpu_bf16", accepts_bf16, NULL, silu_bf16 },
                               { "silu_cpu_widened", widened_accepts, widened_elements_scratch,
                                 silu_widened },
                               { "silu_reference", NULL, NULL, silu_reference },
                               { 0 } };
const op_kernel silu_backward_cpu[] = {
    { "silu_backward_cpu_vector", fast_accepts, NULL, silu_backward_fast },
    { "silu_backward_cpu_table", half_table_accepts, half_table_product_scratch, silu_backward_table },
    { "silu_backward_cpu_bf16", accepts_bf16, NULL, silu_backward_bf16 },
    { "silu_backward_cpu_widened", widened_accepts, widened_elements_scratch, silu_backward_widened },
    { "silu_backward_reference", NULL, NULL, silu_backward_reference },
    { 0 }
};
