#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/sum_squares/sum_squares.h"

static void sum_squares_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    double sum = 0;
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++)
        sum += reference_get(x, i) * reference_get(x, i);
    reference_set(&c->out[0], 0, sum);
}

/* One tile's sum goes to its place in the scratch. */
VECTOR_CLONES static void sum_squares_piece(const op_call *c, int64_t first, int64_t last) {
    enum { LANES = 16 };
    const float *x = c->in[0].data;
    double lane[LANES] = { 0 }, rest = 0;
    int64_t i = first;
    for (; i + LANES <= last; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < last; i++) rest += (double)x[i] * (double)x[i];
    for (int j = 0; j < LANES; j++) rest += lane[j];
    ((double *)c->scratch)[first / SUM_SQUARES_TILE] = rest;
}

static int64_t tiles_of(const op_call *c) {
    return (shape_elements(&c->in[0].shape) + SUM_SQUARES_TILE - 1) / SUM_SQUARES_TILE;
}

static void sum_squares_fast(const op_call *c) {
    fast_for(c, shape_elements(&c->in[0].shape), SUM_SQUARES_TILE, sum_squares_piece);
    double sum = 0;
    for (int64_t i = 0, n = tiles_of(c); i < n; i++) sum += ((const double *)c->scratch)[i];
    ((float *)c->out[0].data)[0] = (float)sum;
}

static uint64_t sum_squares_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)tiles_of(c) * sizeof(double);
}

const op_kernel sum_squares_cpu[] = { { "sum_squares_cpu_tiles", fast_accepts, sum_squares_scratch,
                                        sum_squares_fast },
                                      { "sum_squares_reference", NULL, NULL, sum_squares_reference },
                                      { 0 } };
