#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/square_tiles/square_tiles.h"
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
static void sum_tiles(const op_call *c, int64_t first, int64_t last) {
    int64_t n = shape_elements(&c->in[0].shape);
    for (int64_t tile = first; tile < last; tile++)
        ((double *)c->scratch)[tile] = square_tiles_of(&c->in[0], tile * SUM_SQUARES_TILE, n);
}

static bool accepts(const op_call *c) { return c->out[0].dtype == DTYPE_F32; }

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

const op_kernel sum_squares_cpu[] = { { "sum_squares_cpu_tiles", accepts, sum_squares_scratch,
                                        sum_squares_fast },
                                      { "sum_squares_reference", NULL, NULL, sum_squares_reference },
                                      { 0 } };
