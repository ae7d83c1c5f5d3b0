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

VECTOR_INLINE double element(const void *x, int64_t i, const dtype type) {
    return (double)fast_get(x, i, type);
}

VECTOR_INLINE double sum_typed(const void *x, int64_t n, const dtype type) {
    enum { LANES = 16 };
    double lane[LANES] = { 0 }, rest = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += element(x, i + j, type) * element(x, i + j, type);
    for (; i < n; i++) rest += element(x, i, type) * element(x, i, type);
    for (int j = 0; j < LANES; j++) rest += lane[j];
    return rest;
}

VECTOR_CLONES static double sum_f32(const float *x, int64_t n) { return sum_typed(x, n, DTYPE_F32); }
VECTOR_CLONES static double sum_bf16(const uint16_t *x, int64_t n) { return sum_typed(x, n, DTYPE_BF16); }

static double sum_f16(const uint16_t *x, int64_t n) {
    float wide[SUM_SQUARES_TILE];
    half_widen(DTYPE_F16, x, n, wide);
    return sum_f32(wide, n);
}

/* Each tile's sum goes to its place in the scratch. */
static void sum_tiles(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = &c->in[0];
    int64_t n = shape_elements(&x->shape);
    for (int64_t tile = first; tile < last; tile++) {
        int64_t at = tile * SUM_SQUARES_TILE, here = at + SUM_SQUARES_TILE < n ? SUM_SQUARES_TILE : n - at;
        const uint16_t *half = (const uint16_t *)x->data + at;
        ((double *)c->scratch)[tile] = x->dtype == DTYPE_BF16  ? sum_bf16(half, here)
                                       : x->dtype == DTYPE_F16 ? sum_f16(half, here)
                                                               : sum_f32((const float *)x->data + at, here);
    }
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
