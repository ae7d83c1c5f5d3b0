#include "ops/add/add.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void add_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), i) + reference_get(op_in(c, 1), i));
}

enum { AHEAD = 512 }; /* floats: two operands at once are more than the processor sees coming */

VECTOR_INLINE void add_range(const float *a, const float *b, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + VECTOR_STEP <= n; i += VECTOR_STEP) {
        for (int j = 0; j < VECTOR_STEP; j += VECTOR_LINE) {
            vector_fetch(a + i + j + AHEAD);
            vector_fetch(b + i + j + AHEAD);
        }
#pragma GCC ivdep
        for (int j = 0; j < VECTOR_STEP; j++) y[i + j] = a[i + j] + b[i + j];
    }
#pragma GCC ivdep
    for (; i < n; i++) y[i] = a[i] + b[i];
}

VECTOR_CLONES static void add_piece(const op_call *c, int64_t first, int64_t last) {
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data, part[FAST_PART];
    if (!fast_past_caches(c)) {
        add_range(a + first, b + first, y + first, last - first);
        return;
    }
    for (int64_t i = first; i < last; i += FAST_PART) {
        int64_t n = last - i < FAST_PART ? last - i : FAST_PART;
        add_range(a + i, b + i, part, n);
        fast_store_past(y + i, part, n);
    }
    fast_stored_past();
}

static void add_fast(const op_call *c) { fast_for_elements(c, add_piece); }
static void add_widened(const op_call *c) { widened_elements(c, add_piece); }

const op_kernel add_cpu[] = { { "add_cpu_vector", fast_accepts, NULL, add_fast },
                              { "add_cpu_widened", widened_accepts, widened_elements_scratch, add_widened },
                              { "add_reference", NULL, NULL, add_reference },
                              { 0 } };
