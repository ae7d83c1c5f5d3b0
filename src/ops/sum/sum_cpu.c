#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/sum/sum.h"

static int64_t tiles_of(const op_call *c) {
    return (shape_rows(&c->in[0].shape) + THREADS_ROW_TILE - 1) / THREADS_ROW_TILE;
}

/* First element of a tile, or the end. */
static int64_t tile_start(const op_call *c, int64_t tile) {
    const shape *x = &c->in[0].shape;
    int64_t row = tile * THREADS_ROW_TILE, rows = shape_rows(x);
    return (row < rows ? row : rows) * shape_last(x);
}

static void sum_reference(const op_call *c) {
    const op_arg *accumulator = op_in(c, 1);
    reference_set(&c->out[0], 0, accumulator->data ? reference_get(accumulator, 0) : 0);
    for (int64_t tile = 0; tile < tiles_of(c); tile++) {
        double sum = 0;
        for (int64_t i = tile_start(c, tile); i < tile_start(c, tile + 1); i++)
            sum += reference_get(op_in(c, 0), i);
        reference_set(&c->out[0], 0, reference_get(&c->out[0], 0) + sum);
    }
}

/* A tile's sum, in double, goes to its place in the scratch. */
VECTOR_CLONES static void sum_tiles(const op_call *c, int64_t first, int64_t last) {
    enum { LANES = 16 };
    const float *x = c->in[0].data;
    for (int64_t tile = first; tile < last; tile++) {
        double lane[LANES] = { 0 }, rest = 0;
        int64_t i = tile_start(c, tile), end = tile_start(c, tile + 1);
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j];
        for (; i < end; i++) rest += (double)x[i];
        for (int j = 0; j < LANES; j++) rest += lane[j];
        ((float *)c->scratch)[tile] = (float)rest;
    }
}

static void sum_fast(const op_call *c) {
    const op_arg *accumulator = op_in(c, 1);
    int64_t tiles = tiles_of(c);
    fast_for(c, tiles, 1, sum_tiles);
    float sum = fast_number(accumulator, 0);
    for (int64_t tile = 0; tile < tiles; tile++) sum += ((const float *)c->scratch)[tile];
    *(float *)c->out[0].data = sum;
}

static uint64_t sum_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)tiles_of(c) * sizeof(float);
}

const op_kernel sum_cpu[] = { { "sum_cpu_tiles", fast_accepts, sum_scratch, sum_fast },
                              { "sum_reference", NULL, NULL, sum_reference },
                              { 0 } };

/* ---- the gradient ---- */

static void sum_backward_reference(const op_call *c) {
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), 0));
}

VECTOR_CLONES static void sum_backward_piece(const op_call *c, int64_t first, int64_t last) {
    float *dx = c->out[0].data, dy = *(const float *)c->in[0].data;
    for (int64_t i = first; i < last; i++) dx[i] = dy;
}

static void sum_backward_fast(const op_call *c) { fast_for_elements(c, sum_backward_piece); }

const op_kernel sum_backward_cpu[] = { { "sum_backward_cpu_vector", fast_accepts, NULL, sum_backward_fast },
                                       { "sum_backward_reference", NULL, NULL, sum_backward_reference },
                                       { 0 } };
