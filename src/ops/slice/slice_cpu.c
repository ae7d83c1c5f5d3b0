#include <string.h>

#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/slice/slice.h"

/* Place of the first element of dy in dx. */
static int64_t start_of(const op_call *c) {
    const slice_backward_attributes *a = c->attributes;
    return shape_elements(&c->out[0].shape) / a->rows * a->start;
}

static void slice_backward_reference(const op_call *c) {
    const op_arg *dy = op_in(c, 0), *accumulator = op_in(c, 1);
    int64_t start = start_of(c), end = start + shape_elements(&dy->shape);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double before = accumulator->data ? reference_get(accumulator, i) : 0;
        reference_set(&c->out[0], i, before + (i >= start && i < end ? reference_get(dy, i - start) : 0));
    }
}

/* Elements first .. last-1 of dy, into their place. */
VECTOR_CLONES static void add_piece(const op_call *c, int64_t first, int64_t last) {
    const float *dy = c->in[0].data;
    float *dx = (float *)c->out[0].data + start_of(c);
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) dx[i] += dy[i];
}

static void begin_piece(const op_call *c, int64_t first, int64_t last) {
    const float *accumulator = op_in(c, 1)->data;
    float *dx = c->out[0].data;
    if (accumulator)
        memcpy(dx + first, accumulator + first, (size_t)(last - first) * sizeof *dx);
    else
        memset(dx + first, 0, (size_t)(last - first) * sizeof *dx);
}

static void slice_backward_fast(const op_call *c) {
    if (op_in(c, 1)->data != c->out[0].data) fast_for_elements(c, begin_piece);
    fast_for(c, shape_elements(&c->in[0].shape), FAST_PIECE, add_piece);
}

const op_kernel slice_backward_cpu[] = { { "slice_backward_cpu_vector", fast_accepts, NULL,
                                           slice_backward_fast },
                                         { "slice_backward_reference", NULL, NULL, slice_backward_reference },
                                         { 0 } };
