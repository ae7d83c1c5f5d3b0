#include <string.h>

#include "ops/add_parts/add_parts.h"
#include "ops/fast.h"
#include "ops/reference.h"

static int64_t first_of(const op_call *c) { return ((const add_parts_attributes *)c->attributes)->first; }

/* A sum that begins at zero turns what is -0 into 0, in one process as well. */
static double reference_begin(const op_call *c, int64_t i) {
    return op_in(c, 0)->data ? reference_get(op_in(c, 0), i) : 0;
}

/* In f32 each, in this order, as they are where one process adds them. */
static void add_parts_reference(const op_call *c) {
    int64_t n = shape_last(&c->in[1].shape), first = first_of(c);
    for (int64_t i = 0; i < shape_elements(&c->out[0].shape); i++) {
        reference_set(&c->out[0], i, reference_begin(c, i));
        if (i < first || i >= first + n) continue;
        for (int64_t r = 0; r < c->in[1].shape.dim[0]; r++)
            reference_set(&c->out[0], i,
                          reference_get(&c->out[0], i) + reference_get(op_in(c, 1), r * n + i - first));
    }
}

static bool accepts(const op_call *c) { return c->in[1].dtype == DTYPE_F32; }

VECTOR_CLONES static void add_piece(const op_call *c, int64_t first, int64_t last) {
    int64_t n = shape_last(&c->in[1].shape), from = first_of(c);
    const float *sum = c->in[0].data, *parts = c->in[1].data;
    float *y = (float *)c->out[0].data + from;
    if (sum) sum += from;
    if (sum)
        for (int64_t i = first; i < last; i++) y[i] = sum[i] + parts[i];
    else
        for (int64_t i = first; i < last; i++) y[i] = 0.0f + parts[i];
    for (int64_t r = 1; r < c->in[1].shape.dim[0]; r++) {
        const float *part = parts + r * n;
        for (int64_t i = first; i < last; i++) y[i] = y[i] + part[i];
    }
}

/* The sum is in its place; only tests call it elsewhere. */
static void add_parts_fast(const op_call *c) {
    const float *sum = c->in[0].data;
    if (sum && sum != c->out[0].data)
        memcpy(c->out[0].data, sum, (size_t)shape_elements(&c->out[0].shape) * sizeof *sum);
    fast_for(c, shape_last(&c->in[1].shape), FAST_PIECE, add_piece);
}

const op_kernel add_parts_cpu[] = { { "add_parts_cpu_vector", accepts, NULL, add_parts_fast },
                                    { "add_parts_reference", NULL, NULL, add_parts_reference },
                                    { 0 } };
