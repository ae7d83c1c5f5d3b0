#include "ops/add_parts/add_parts.h"
#include "ops/fast.h"
#include "ops/reference.h"

/* In f32 each, in this order, as they are where one process adds them. */
static void add_parts_reference(const op_call *c) {
    int64_t n = shape_elements(&c->out[0].shape);
    for (int64_t i = 0; i < n; i++)
        for (int64_t r = 0; r < c->in[1].shape.dim[0]; r++)
            reference_set(&c->out[0], i,
                          reference_get(r ? &c->out[0] : op_in(c, 0), i) +
                              reference_get(op_in(c, 1), r * n + i));
}

static bool accepts(const op_call *c) { return c->in[0].dtype == DTYPE_F32 && c->in[1].dtype == DTYPE_F32; }

VECTOR_CLONES static void add_piece(const op_call *c, int64_t first, int64_t last) {
    int64_t n = shape_elements(&c->out[0].shape);
    const float *sum = c->in[0].data, *parts = c->in[1].data;
    float *y = c->out[0].data;
    for (int64_t i = first; i < last; i++) y[i] = sum[i] + parts[i];
    for (int64_t r = 1; r < c->in[1].shape.dim[0]; r++) {
        const float *part = parts + r * n;
        for (int64_t i = first; i < last; i++) y[i] = y[i] + part[i];
    }
}

static void add_parts_fast(const op_call *c) { fast_for_elements(c, add_piece); }

const op_kernel add_parts_cpu[] = { { "add_parts_cpu_vector", accepts, NULL, add_parts_fast },
                                    { "add_parts_reference", NULL, NULL, add_parts_reference },
                                    { 0 } };
