#include "ops/gated/gated_math.h"
#include "ops/gated_halves/gated_halves.h"
#include "ops/reference.h"
#include "ops/widened.h"

static gated_function function_of(const op_call *c) {
    return (gated_function)((const gated_attributes *)c->attributes)->function;
}

/* Where the gate of element i of y lies; its partner is `width` further. */
static int64_t gate_at(int64_t i, int64_t width) { return i / width * 2 * width + i % width; }

static void gated_halves_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    int64_t width = shape_last(&y->shape);
    for (int64_t i = 0, n = shape_elements(&y->shape); i < n; i++) {
        int64_t at = gate_at(i, width);
        reference_set(y, i, gated_value(function_of(c), reference_get(x, at)) * reference_get(x, at + width));
    }
}

static void gated_halves_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1);
    int64_t width = shape_last(&dy->shape);
    for (int64_t i = 0, n = shape_elements(&dy->shape); i < n; i++) {
        int64_t at = gate_at(i, width);
        double gate = reference_get(x, at), up = reference_get(x, at + width), d = reference_get(dy, i);
        reference_set(&c->out[0], at, d * up * gated_slope(function_of(c), gate));
        reference_set(&c->out[0], at + width, d * gated_value(function_of(c), gate));
    }
}

/* ---- vectors: rows first .. last - 1 of y ---- */

VECTOR_INLINE void forward(const op_call *c, const gated_function f, int64_t first, int64_t last) {
    int64_t width = shape_last(&c->out[0].shape);
    for (int64_t r = first; r < last; r++) {
        const float *gate = (const float *)c->in[0].data + 2 * r * width, *up = gate + width;
        float *y = (float *)c->out[0].data + r * width;
#pragma GCC ivdep
        for (int64_t i = 0; i < width; i++) y[i] = gated_value_f32(f, gate[i]) * up[i];
    }
}

/* dx may live in x, so an element is read before it is written. */
VECTOR_INLINE void backward(const op_call *c, const gated_function f, int64_t first, int64_t last) {
    int64_t width = shape_last(&c->in[1].shape);
    for (int64_t r = first; r < last; r++) {
        const float *gate = (const float *)c->in[0].data + 2 * r * width, *up = gate + width;
        const float *dy = (const float *)c->in[1].data + r * width;
        float *dgate = (float *)c->out[0].data + 2 * r * width, *dup = dgate + width;
#pragma GCC ivdep
        for (int64_t i = 0; i < width; i++) {
            float x = gate[i], d = dy[i], of_gate = d * up[i] * gated_slope_f32(f, x);
            dup[i] = d * gated_value_f32(f, x);
            dgate[i] = of_gate;
        }
    }
}

VECTOR_CLONES static void forward_rows(const op_call *c, int64_t first, int64_t last) {
    switch (function_of(c)) {
    case GATED_SILU: forward(c, GATED_SILU, first, last); break;
    case GATED_GELU_TANH: forward(c, GATED_GELU_TANH, first, last); break;
    case GATED_GELU_ERF: forward(c, GATED_GELU_ERF, first, last); break;
    }
}

VECTOR_CLONES static void backward_rows(const op_call *c, int64_t first, int64_t last) {
    switch (function_of(c)) {
    case GATED_SILU: backward(c, GATED_SILU, first, last); break;
    case GATED_GELU_TANH: backward(c, GATED_GELU_TANH, first, last); break;
    case GATED_GELU_ERF: backward(c, GATED_GELU_ERF, first, last); break;
    }
}

static void run_rows(const op_call *c, const shape *y, fast_body body) {
    fast_for(c, shape_rows(y), fast_rows(shape_last(y)), body);
}

static void gated_halves_fast(const op_call *c) { run_rows(c, &c->out[0].shape, forward_rows); }
static void gated_halves_backward_fast(const op_call *c) { run_rows(c, &c->in[1].shape, backward_rows); }

static uint64_t rows_scratch(const op_call *c, int threads) {
    return widened_scratch(c, &(widened){ .rows = shape_rows(&c->in[0].shape) }, threads);
}

static void run_widened(const op_call *c, fast_body body) {
    widened_run(c, &(widened){ .rows = shape_rows(&c->in[0].shape) }, body);
}

static void gated_halves_widened(const op_call *c) { run_widened(c, forward_rows); }
static void gated_halves_backward_widened(const op_call *c) { run_widened(c, backward_rows); }

const op_kernel gated_halves_cpu[] = { { "gated_halves_cpu_rows", fast_accepts, NULL, gated_halves_fast },
                                       { "gated_halves_cpu_widened", widened_accepts, rows_scratch,
                                         gated_halves_widened },
                                       { "gated_halves_reference", NULL, NULL, gated_halves_reference },
                                       { 0 } };
const op_kernel gated_halves_backward_cpu[] = {
    { "gated_halves_backward_cpu_rows", fast_accepts, NULL, gated_halves_backward_fast },
    { "gated_halves_backward_cpu_widened", widened_accepts, rows_scratch, gated_halves_backward_widened },
    { "gated_halves_backward_reference", NULL, NULL, gated_halves_backward_reference },
    { 0 }
};
