#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/square_tiles/square_tiles.h"
#include "ops/sum_squares/sum_squares.h"

/* ---- one tile ---- */

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

double square_tiles_of(const op_arg *x, int64_t at, int64_t end) {
    int64_t n = end - at < SUM_SQUARES_TILE ? end - at : SUM_SQUARES_TILE;
    const uint16_t *half = (const uint16_t *)x->data + at;
    if (n <= 0) return 0;
    if (x->dtype == DTYPE_BF16) return sum_bf16(half, n);
    return x->dtype == DTYPE_F16 ? sum_f16(half, n) : sum_f32((const float *)x->data + at, n);
}

/* ---- those of a share ---- */

/* Where the whole ends, counted in the share. */
static int64_t end_of(const op_call *c) {
    const square_tiles_attributes *a = c->attributes;
    int64_t left = a->whole - c->first, held = shape_elements(&c->in[0].shape);
    return left < held ? left : held;
}

static void square_tiles_reference(const op_call *c) {
    int64_t end = end_of(c);
    for (int64_t tile = 0; tile < shape_elements(&c->out[0].shape); tile++) {
        double sum = 0;
        for (int64_t i = tile * SUM_SQUARES_TILE; i < (tile + 1) * SUM_SQUARES_TILE && i < end; i++)
            sum += reference_get(op_in(c, 0), i) * reference_get(op_in(c, 0), i);
        reference_set(&c->out[0], tile, sum);
    }
}

static void sum_tiles(const op_call *c, int64_t first, int64_t last) {
    int64_t end = end_of(c);
    for (int64_t tile = first; tile < last; tile++)
        ((double *)c->out[0].data)[tile] = square_tiles_of(&c->in[0], tile * SUM_SQUARES_TILE, end);
}

static bool accepts(const op_call *c) { return dtype_wide(c->in[0].dtype) == DTYPE_F32; }

enum { PIECE = 16 }; /* tiles that a thread takes at a time */

static void square_tiles_fast(const op_call *c) {
    fast_for(c, shape_elements(&c->out[0].shape), PIECE, sum_tiles);
}

const op_kernel square_tiles_cpu[] = { { "square_tiles_cpu_vector", accepts, NULL, square_tiles_fast },
                                       { "square_tiles_reference", NULL, NULL, square_tiles_reference },
                                       { 0 } };
