#include "ops/gated/gated.h"
#include "ops/gated/gated_math.h"
#include "ops/half_table.h"
#include "ops/reference.h"
#include "ops/widened.h"

static gated_function function_of(const op_call *c) {
    return (gated_function)((const gated_attributes *)c->attributes)->function;
}

static void gated_reference(const op_call *c) {
    gated_function f = function_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i,
                      gated_value(f, reference_get(op_in(c, 0), i)) * reference_get(op_in(c, 1), i));
}

static void gated_backward_reference(const op_call *c) {
    gated_function f = function_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double gate = reference_get(op_in(c, 0), i), up = reference_get(op_in(c, 1), i);
        double dy = reference_get(op_in(c, 2), i);
        reference_set(&c->out[0], i, dy * up * gated_slope(f, gate));
        reference_set(&c->out[1], i, dy * gated_value(f, gate));
    }
}

/* ---- vectors: the function is a constant wherever these are inlined ---- */

VECTOR_INLINE void forward(const op_call *c, const gated_function f, int64_t first, int64_t last,
                           const dtype type) {
    const void *gate = c->in[0].data, *up = c->in[1].data;
    void *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++)
        fast_put(y, i, gated_value_f32(f, fast_get(gate, i, type)) * fast_get(up, i, type), type);
}

/* Results may live where operands do, so an element is read before it is written. */
VECTOR_INLINE void backward(const op_call *c, const gated_function f, int64_t first, int64_t last,
                            const dtype type) {
    const void *gate = c->in[0].data, *up = c->in[1].data, *dy = c->in[2].data;
    void *dgate = c->out[0].data, *dup = c->out[1].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) {
        float x = fast_get(gate, i, type), d = fast_get(dy, i, type),
              of_gate = d * fast_get(up, i, type) * gated_slope_f32(f, x);
        fast_put(dup, i, d * gated_value_f32(f, x), type);
        fast_put(dgate, i, of_gate, type);
    }
}

VECTOR_INLINE void forward_any(const op_call *c, int64_t first, int64_t last, const dtype type,
                               const dtype to) {
    (void)to;
    switch (function_of(c)) {
    case GATED_SILU: forward(c, GATED_SILU, first, last, type); break;
    case GATED_GELU_TANH: forward(c, GATED_GELU_TANH, first, last, type); break;
    case GATED_GELU_ERF: forward(c, GATED_GELU_ERF, first, last, type); break;
    }
}

VECTOR_INLINE void backward_any(const op_call *c, int64_t first, int64_t last, const dtype type,
                                const dtype to) {
    (void)to;
    switch (function_of(c)) {
    case GATED_SILU: backward(c, GATED_SILU, first, last, type); break;
    case GATED_GELU_TANH: backward(c, GATED_GELU_TANH, first, last, type); break;
    case GATED_GELU_ERF: backward(c, GATED_GELU_ERF, first, last, type); break;
    }
}

FAST_TYPED(gated_piece, forward_any, DTYPE_F32, DTYPE_F32)
FAST_TYPED(gated_bf16_piece, forward_any, DTYPE_BF16, DTYPE_BF16)
FAST_TYPED(gated_backward_piece, backward_any, DTYPE_F32, DTYPE_F32)
FAST_TYPED(gated_backward_bf16_piece, backward_any, DTYPE_BF16, DTYPE_BF16)

static bool accepts_bf16(const op_call *c) { return fast_is_all(c, DTYPE_BF16); }
static void gated_fast(const op_call *c) { fast_for_elements(c, gated_piece); }
static void gated_bf16(const op_call *c) { fast_for_elements(c, gated_bf16_piece); }
static void gated_widened(const op_call *c) { widened_elements(c, gated_piece); }
static void gated_table(const op_call *c) {
    half_table_product(c, (half_table_bodies){ gated_piece, gated_bf16_piece });
}
static void gated_backward_fast(const op_call *c) { fast_for_elements(c, gated_backward_piece); }
static void gated_backward_bf16(const op_call *c) { fast_for_elements(c, gated_backward_bf16_piece); }
static void gated_backward_widened(const op_call *c) { widened_elements(c, gated_backward_piece); }
static void gated_backward_table(const op_call *c) {
    half_table_gradients(c, (half_table_bodies){ gated_backward_piece, gated_backward_bf16_piece });
}

const op_kernel gated_cpu[] = {
    { "gated_cpu_vector", fast_accepts, NULL, gated_fast },
    { "gated_cpu_table", half_table_accepts, half_table_product_scratch, gated_table },
    { "gated_cpu_bf16", accepts_bf16, NULL, gated_bf16 },
    { "gated_cpu_widened", widened_accepts, widened_elements_scratch, gated_widened },
    { "gated_reference", NULL, NULL, gated_reference },
    { 0 }
};
const op_kernel gated_backward_cpu[] = {
    { "gated_backward_cpu_vector", fast_accepts, NULL, gated_backward_fast },
    { "gated_backward_cpu_table", half_table_accepts, half_table_gradients_scratch, gated_backward_table },
    { "gated_backward_cpu_bf16", accepts_bf16, NULL, gated_backward_bf16 },
    { "gated_backward_cpu_widened", widened_accepts, widened_elements_scratch, gated_backward_widened },
    { "gated_backward_reference", NULL, NULL, gated_backward_reference },
    { 0 }
};
