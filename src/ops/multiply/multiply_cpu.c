#include "ops/multiply/multiply.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void multiply_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i) * reference_get(op_in(c, 1), i));
}

VECTOR_INLINE void multiply(const op_call *c, int64_t first, int64_t last, const dtype from, const dtype to) {
    const void *a = c->in[0].data, *b = c->in[1].data;
    void *y = c->out[0].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) fast_put(y, i, fast_get(a, i, from) * fast_get(b, i, from), to);
}

FAST_TYPED(multiply_piece, multiply, DTYPE_F32, DTYPE_F32)
FAST_TYPED(multiply_bf16_piece, multiply, DTYPE_BF16, DTYPE_BF16)

static bool accepts_bf16(const op_call *c) { return fast_is_all(c, DTYPE_BF16); }
static void multiply_fast(const op_call *c) { fast_for_elements(c, multiply_piece); }
static void multiply_bf16(const op_call *c) { fast_for_elements(c, multiply_bf16_piece); }
static void multiply_widened(const op_call *c) { widened_elements(c, multiply_piece); }

const op_kernel multiply_cpu[] = { { "multiply_cpu_vector", fast_accepts, NULL, multiply_fast },
                                   { "multiply_cpu_bf16", accepts_bf16, NULL, multiply_bf16 },
                                   { "multiply_cpu_widened", widened_accepts, widened_elements_scratch,
                                     multiply_widened },
                                   { "multiply_reference", NULL, NULL, multiply_reference },
                                   { 0 } };
