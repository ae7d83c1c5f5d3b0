#include <string.h>

#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/token_at/token_at.h"

/* Of sample b: the place that counts; -1: none of its tokens. */
static int64_t place_of(const op_arg *places, int64_t b, int64_t tokens) {
    int32_t at = ((const int32_t *)places->data)[b];
    return at >= 0 && at < tokens ? at : -1;
}

static void token_at_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    int64_t tokens = x->shape.dim[1], width = x->shape.dim[2];
    for (int64_t i = 0, n = shape_elements(&y->shape); i < n; i++) {
        int64_t b = i / width, at = place_of(op_in(c, 1), b, tokens);
        reference_set(y, i, at < 0 ? 0 : reference_get(x, (b * tokens + at) * width + i % width));
    }
}

/* Bytes are moved as they are, so this serves every type; those of a zero are zeros in all of them. */
static void copy_tokens(const op_call *c, int64_t first, int64_t last) {
    const shape *x = &c->in[0].shape;
    size_t row = (size_t)x->dim[2] * dtype_bytes(c->in[0].dtype);
    for (int64_t b = first; b < last; b++) {
        int64_t at = place_of(&c->in[1], b, x->dim[1]);
        char *y = (char *)c->out[0].data + (size_t)b * row;
        if (at < 0)
            memset(y, 0, row);
        else
            memcpy(y, (const char *)c->in[0].data + (size_t)(b * x->dim[1] + at) * row, row);
    }
}

static void token_at_copy(const op_call *c) {
    fast_for(c, c->out[0].shape.dim[0], fast_rows(c->out[0].shape.dim[1]), copy_tokens);
}

const op_kernel token_at_cpu[] = { { "token_at_cpu_copy", NULL, NULL, token_at_copy },
                                   { "token_at_reference", NULL, NULL, token_at_reference },
                                   { 0 } };

/* ---- the gradient ---- */

static void token_at_backward_reference(const op_call *c) {
    const op_arg *dy = op_in(c, 1), *accumulator = op_in(c, 2), *dx = &c->out[0];
    int64_t tokens = dx->shape.dim[1], width = dx->shape.dim[2];
    for (int64_t i = 0, n = shape_elements(&dx->shape); i < n; i++) {
        int64_t b = i / (tokens * width), here = i / width % tokens;
        double before = accumulator->data ? reference_get(accumulator, i) : 0;
        bool meant = place_of(op_in(c, 0), b, tokens) == here;
        reference_set(dx, i, before + (meant ? reference_get(dy, b * width + i % width) : 0));
    }
}

/* Without an accumulator nothing is added, so bytes of any type are moved. */
static bool is_alone(const op_call *c) { return op_in(c, 2)->dtype == DTYPE_NONE; }

static void place_tokens(const op_call *c, int64_t first, int64_t last) {
    const shape *dx = &c->out[0].shape;
    size_t row = (size_t)dx->dim[2] * dtype_bytes(c->out[0].dtype), sample = (size_t)dx->dim[1] * row;
    for (int64_t b = first; b < last; b++) {
        int64_t at = place_of(&c->in[0], b, dx->dim[1]);
        char *to = (char *)c->out[0].data + (size_t)b * sample;
        memset(to, 0, sample);
        if (at >= 0) memcpy(to + (size_t)at * row, (const char *)c->in[1].data + (size_t)b * row, row);
    }
}

static void token_at_backward_copy(const op_call *c) {
    const shape *dx = &c->out[0].shape;
    fast_for(c, dx->dim[0], fast_rows(dx->dim[1] * dx->dim[2]), place_tokens);
}

const op_kernel token_at_backward_cpu[] = {
    { "token_at_backward_cpu_copy", is_alone, NULL, token_at_backward_copy },
    { "token_at_backward_reference", NULL, NULL, token_at_backward_reference },
    { 0 }
};
