#include "ops/half_table.h"
#include "ops/quick_gelu/quick_gelu.h"
#include "ops/quick_gelu/quick_gelu_math.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void quick_gelu_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, quick_gelu_value(reference_get(op_in(c, 0), i)));
}

VECTOR_INLINE void forward(const op_call *c, int64_t first, int64_t last, const dtype from, const dtype to) {
    const void *x = c->in[0].data;
    void *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) fast_put(y, i, quick_gelu_value_f32(fast_get(x, i, from)), to);
}

FAST_TYPED(quick_gelu_piece, forward, DTYPE_F32, DTYPE_F32)
FAST_TYPED(quick_gelu_bf16_piece, forward, DTYPE_BF16, DTYPE_BF16)

static bool accepts_bf16(const op_call *c) { return fast_is_all(c, DTYPE_BF16); }
static void quick_gelu_fast(const op_call *c) { fast_for_elements(c, quick_gelu_piece); }
static void quick_gelu_bf16(const op_call *c) { fast_for_elements(c, quick_gelu_bf16_piece); }
static void quick_gelu_widened(const op_call *c) { widened_elements(c, quick_gelu_piece); }
static void quick_gelu_table(const op_call *c) {
    half_table_map(c, (half_table_bodies){ quick_gelu_piece, quick_gelu_bf16_piece });
}

static void quick_gelu_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 1), i) * quick_gelu_slope(reference_get(op_in(c, 0), i)));
}

VECTOR_INLINE void backward(const op_call *c, int64_t first, int64_t last, const dtype from, const dtype to) {
    const void *x = c->in[0].data, *dy = c->in[1].data;
    void *dx = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++)
        fast_put(dx, i, fast_get(dy, i, from) * quick_gelu_slope_f32(fast_get(x, i, from)), to);
}

FAST_TYPED(quick_gelu_backward_piece, backward, DTYPE_F32, DTYPE_F32)
FAST_TYPED(quick_gelu_backward_bf16_piece, backward, DTYPE_BF16, DTYPE_BF16)

static void quick_gelu_backward_fast(const op_call *c) { fast_for_elements(c, quick_gelu_backward_piece); }
static void quick_gelu_backward_bf16(const op_call *c) {
    fast_for_elements(c, quick_gelu_backward_bf16_piece);
}
static void quick_gelu_backward_widened(const op_call *c) { widened_elements(c, quick_gelu_backward_piece); }
static void quick_gelu_backward_table(const op_call *c) {
    half_table_product(c, (half_table_bodies){ quick_gelu_backward_piece, quick_gelu_backward_bf16_piece });
}

const op_kernel quick_gelu_cpu[] = {
    { "quick_gelu_cpu_vector", fast_accepts, NULL, quick_gelu_fast },
    { "quick_gelu_cpu_table", half_table_accepts, half_table_map_scratch, quick_gelu_table },
    { "quick_gelu_cpu_bf16", accepts_bf16, NULL, quick_gelu_bf16 },
    { "quick_gelu_cpu_widened", widened_accepts, widened_elements_scratch, quick_gelu_widened },
    { "quick_gelu_reference", NULL, NULL, quick_gelu_reference },
    { 0 }
};
const op_kernel quick_gelu_backward_cpu[] = {
    { "quick_gelu_backward_cpu_vector", fast_accepts, NULL, quick_gelu_backward_fast },
    { "quick_gelu_backward_cpu_table", half_table_accepts, half_table_product_scratch,
      quick_gelu_backward_table },
    { "quick_gelu_backward_cpu_bf16", accepts_bf16, NULL, quick_gelu_backward_bf16 },
    { "quick_gelu_backward_cpu_widened", widened_accepts, widened_elements_scratch,
      quick_gelu_backward_widened },
    { "quick_gelu_backward_reference", NULL, NULL, quick_gelu_backward_reference },
    { 0 }
};
