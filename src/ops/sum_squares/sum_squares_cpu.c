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

static int64_t tiles_of(const op_call *c) {
    return (shape_elements(&c->in[0].shape) + SUM_SQUARES_TILE - 1) / SUM_SQUARES_TILE;
}

/* Each tile's sum goes to its place in the scratch. */
VECTOR_CLONES static void sum_tiles(const op_call *c, int64_t first, int64_t last) {
    enum { LANES = 16 };
    const float *x = c->in[0].data;
    int64_t n = shape_elements(&c->in[0].shape);
    for (int64_t tile = first; tile < last; tile++) {
        int64_t i = tile * SUM_SQUARES_TILE, end = i + SUM_SQUARES_TILE < n ? i + SUM_SQUARES_TILE : n;
        double lane[LANES] = { 0 }, rest = 0;
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
        for (; i < end; i++) rest += (double)x[i] * (double)x[i];
        for (int j = 0; j < LANES; j++) rest += lane[j];
        ((double *)c->scratch)[tile] = rest;
    }
}

enum { PIECE = 16 }; /* tiles that a thread takes at a time */

static void sum_squares_fast(const op_call *c) {
    fast_for(c, tiles_of(c), PIECE, sum_tiles);
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
