#include "base/threads.h"
#include "ops/element_loss/element_loss.h"
#include "ops/element_loss/element_loss_math.h"
#include "ops/reference.h"
#include "ops/widened.h"

static element_loss_function function_of(const op_call *c) {
    return (element_loss_function)((const element_loss_attributes *)c->attributes)->function;
}

static double weight_of(const op_call *c) {
    return reference_get(op_in(c, 2), 0) * (double)((const element_loss_attributes *)c->attributes)->weight;
}

static void begin(const op_call *c) {
    const op_arg *accumulator = op_in(c, 3);
    reference_set(&c->out[0], 0, accumulator->data ? reference_get(accumulator, 0) : 0);
}

static void add_tile(const op_call *c, double weight, double sum) {
    reference_set(&c->out[0], 0, reference_get(&c->out[0], 0) + weight * sum);
}

static void element_loss_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *target = op_in(c, 1);
    double weight = weight_of(c);
    begin(c);
    for (int64_t tile = 0, n = shape_elements(&x->shape); tile < n; tile += THREADS_ROW_TILE) {
        double sum = 0;
        for (int64_t i = tile; i < n && i < tile + THREADS_ROW_TILE; i++)
            sum += element_loss_value(function_of(c), reference_get(x, i), reference_get(target, i));
        add_tile(c, weight, sum);
    }
}

static void element_loss_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *target = op_in(c, 1);
    double factor = weight_of(c) * reference_get(op_in(c, 3), 0);
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++)
        reference_set(&c->out[0], i,
                      factor *
                          element_loss_slope(function_of(c), reference_get(x, i), reference_get(target, i)));
}

/* ---- vectors: the function is a constant wherever these are inlined ---- */

VECTOR_INLINE void values(const element_loss_function f, const float *x, const float *t, int64_t n,
                          float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = element_loss_value_f32(f, x[i], t[i]);
}

VECTOR_CLONES static void values_of(element_loss_function f, const float *x, const float *t, int64_t n,
                                    float *out) {
    switch (f) {
    case ELEMENT_LOSS_SQUARED: values(ELEMENT_LOSS_SQUARED, x, t, n, out); break;
    case ELEMENT_LOSS_ABSOLUTE: values(ELEMENT_LOSS_ABSOLUTE, x, t, n, out); break;
    case ELEMENT_LOSS_BINARY: values(ELEMENT_LOSS_BINARY, x, t, n, out); break;
    }
}

static int64_t tiles_in(const op_call *c) {
    return (shape_elements(&c->in[0].shape) + THREADS_ROW_TILE - 1) / THREADS_ROW_TILE;
}

static double *tiles_of(const op_call *c) { return c->scratch; }

static uint64_t element_loss_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)tiles_in(c) * sizeof(double);
}

/* Sums of the tiles first .. last-1: terms in f32, added one after the other in double. */
static void sum_tiles(const op_call *c, int64_t first, int64_t last) {
    float room[2][THREADS_ROW_TILE], terms[THREADS_ROW_TILE];
    int64_t all = shape_elements(&c->in[0].shape);
    for (int64_t tile = first; tile < last; tile++) {
        int64_t at = tile * THREADS_ROW_TILE, n = all - at < THREADS_ROW_TILE ? all - at : THREADS_ROW_TILE;
        double sum = 0;
        values_of(function_of(c), fast_floats(&c->in[0], at, n, room[0]),
                  fast_floats(&c->in[1], at, n, room[1]), n, terms);
        for (int64_t i = 0; i < n; i++) sum += (double)terms[i];
        tiles_of(c)[tile] = sum;
    }
}

static void element_loss_tiles(const op_call *c) {
    int64_t tiles = tiles_in(c);
    double weight = weight_of(c);
    fast_for(c, tiles, FAST_PIECE / THREADS_ROW_TILE, sum_tiles);
    begin(c);
    for (int64_t tile = 0; tile < tiles; tile++) add_tile(c, weight, tiles_of(c)[tile]);
}

const op_kernel element_loss_cpu[] = { { "element_loss_cpu_tiles", fast_accepts_halves, element_loss_scratch,
                                         element_loss_tiles },
                                       { "element_loss_reference", NULL, NULL, element_loss_reference },
                                       { 0 } };

/* ---- the gradient ---- */

VECTOR_INLINE void slopes(const op_call *c, const element_loss_function f, int64_t first, int64_t last) {
    const float *x = c->in[0].data, *t = c->in[1].data;
    float *dx = c->out[0].data, weight = ((const element_loss_attributes *)c->attributes)->weight;
    float factor = *(const float *)c->in[2].data * weight * *(const float *)c->in[3].data;
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) dx[i] = factor * element_loss_slope_f32(f, x[i], t[i]);
}

VECTOR_CLONES static void slopes_piece(const op_call *c, int64_t first, int64_t last) {
    switch (function_of(c)) {
    case ELEMENT_LOSS_SQUARED: slopes(c, ELEMENT_LOSS_SQUARED, first, last); break;
    case ELEMENT_LOSS_ABSOLUTE: slopes(c, ELEMENT_LOSS_ABSOLUTE, first, last); break;
    case ELEMENT_LOSS_BINARY: slopes(c, ELEMENT_LOSS_BINARY, first, last); break;
    }
}

static void element_loss_backward_fast(const op_call *c) { fast_for_elements(c, slopes_piece); }
static void element_loss_backward_widened(const op_call *c) { widened_elements(c, slopes_piece); }

const op_kernel element_loss_backward_cpu[] = {
    { "element_loss_backward_cpu_vector", fast_accepts, NULL, element_loss_backward_fast },
    { "element_loss_backward_cpu_widened", widened_accepts, widened_elements_scratch,
      element_loss_backward_widened },
    { "element_loss_backward_reference", NULL, NULL, element_loss_backward_reference },
    { 0 }
};
