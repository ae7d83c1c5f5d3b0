#include "ops/attention/attention_tile.h"

#include <string.h>

#include "base/half.h"
#include "base/units.h"
#include "ops/attention/attention_product.h"
#include "ops/softcap/softcap_math.h"
#include "ops/vector_math.h"
#if defined(__x86_64__) && defined(__GNUC__)
#include "ops/matmul/matmul_avx512.h"
#endif

enum { TILE = ATTENTION_TILE };

attention_tile attention_tile_queries(const attention_view *v, int64_t b, int64_t h, int64_t t) {
    int64_t rest = v->n.queries - t;
    return (attention_tile){ .b = b,
                             .h = h,
                             .g = h / (v->n.heads / v->n.kv_heads),
                             .t = t,
                             .queries = (int)(rest < TILE ? rest : TILE) };
}

bool attention_tile_next(const attention_view *v, attention_tile *tile, int64_t from) {
    return attention_sight_next(&v->sight, tile, from);
}

float *attention_tile_at_queries(const attention_view *v, const attention_tile *tile,
                                 const attention_place *p) {
    return attention_f32(v, p, tile->b * v->n.queries + tile->t, tile->h);
}

float *attention_tile_at_keys(const attention_view *v, const attention_tile *tile, const attention_place *p) {
    return attention_f32(v, p, tile->b * v->n.keys + tile->s, tile->g);
}

/* ---- moving ---- */

typedef float four __attribute__((vector_size(16)));

/* Four of the elements of x (places 0 to 3) and y (4 to 7). */
#ifdef __clang__
#define PICK(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int32_t four_places __attribute__((vector_size(16)));
#define PICK(x, y, ...) __builtin_shuffle(x, y, (four_places){ __VA_ARGS__ })
#endif

static inline four load_four(const float *from) {
    four x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void transpose_four(const float *in, int64_t in_stride, float *out, int64_t out_stride) {
    four a = load_four(in), b = load_four(in + in_stride), c = load_four(in + 2 * in_stride),
         d = load_four(in + 3 * in_stride);
    four ab = PICK(a, b, 0, 4, 1, 5), cd = PICK(c, d, 0, 4, 1, 5);
    four rows[4] = { PICK(ab, cd, 0, 1, 4, 5), PICK(ab, cd, 2, 3, 6, 7) };
    ab = PICK(a, b, 2, 6, 3, 7);
    cd = PICK(c, d, 2, 6, 3, 7);
    rows[2] = PICK(ab, cd, 0, 1, 4, 5);
    rows[3] = PICK(ab, cd, 2, 3, 6, 7);
    for (int i = 0; i < 4; i++) memcpy(out + i * out_stride, &rows[i], sizeof rows[i]);
}

static void transpose_plainly(const attention_transposition *t, int64_t row, int64_t rows, int64_t column) {
    for (int64_t r = row; r < rows; r++)
        for (int64_t c = column; c < t->columns; c++)
            t->out[c * t->out_stride + r] = t->in[r * t->in_stride + c];
}

/* Walks along the rows of the side whose rows lie further apart: they may share one set of the cache. */
static void transpose_fours(const attention_transposition *t) {
    int64_t rows = t->rows & ~(int64_t)3, columns = t->columns & ~(int64_t)3;
    bool down = t->out_stride > t->in_stride;
    int64_t outer = down ? columns : rows, inner = down ? rows : columns;
    for (int64_t i = 0; i < outer; i += 4)
        for (int64_t j = 0; j < inner; j += 4) {
            int64_t r = down ? j : i, c = down ? i : j;
            transpose_four(t->in + r * t->in_stride + c, t->in_stride, t->out + c * t->out_stride + r,
                           t->out_stride);
        }
    transpose_plainly(t, 0, rows, columns);
    transpose_plainly(t, rows, t->rows, 0);
}

#if defined(__x86_64__) && defined(__GNUC__)

/* Squares of 16 x 16 in registers. */
TARGET static void transpose_squares(const attention_transposition *t, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r += VECTOR)
        for (int64_t c = 0; c < columns; c += VECTOR) {
            __m512 x[VECTOR];
#pragma GCC unroll 16
            for (int i = 0; i < VECTOR; i++) x[i] = _mm512_loadu_ps(t->in + (r + i) * t->in_stride + c);
            turn(x);
#pragma GCC unroll 16
            for (int i = 0; i < VECTOR; i++) _mm512_storeu_ps(t->out + (c + i) * t->out_stride + r, x[i]);
        }
}

static bool has_squares(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

#else

enum { VECTOR = 16 };
static void transpose_squares(const attention_transposition *t, int64_t rows, int64_t columns) {
    (void)t, (void)rows, (void)columns;
}
static bool has_squares(void) { return false; }

#endif

/* Whole squares, then what is right of them, then what is beneath. */
void attention_tile_transpose(const attention_transposition *t) {
    int64_t rows = t->rows / VECTOR * VECTOR, columns = t->columns / VECTOR * VECTOR;
    if (rows == 0 || columns == 0 || !has_squares()) {
        transpose_fours(t);
        return;
    }
    attention_transposition right = *t, beneath = *t;
    transpose_squares(t, rows, columns);
    right.in += columns, right.out += columns * t->out_stride;
    right.rows = rows, right.columns -= columns;
    if (right.columns) transpose_fours(&right);
    beneath.in += rows * t->in_stride, beneath.out += rows, beneath.rows -= rows;
    if (beneath.rows) transpose_fours(&beneath);
}

void attention_tile_pack(const float *in, int64_t stride, int rows, int64_t columns, float *out) {
    for (int r = 0; r < rows; r++) memcpy(out + r * columns, in + r * stride, (size_t)columns * sizeof *out);
}

VECTOR_CLONES static void multiply_by(float *x, int64_t n, float factor) {
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

void attention_tile_scaled_queries(const attention_view *v, const attention_tile *tile, float *out) {
    attention_tile_transpose(&(attention_transposition){ .in = attention_tile_at_queries(v, tile, &v->q),
                                                         .in_stride = v->q.stride,
                                                         .out = out,
                                                         .out_stride = TILE,
                                                         .rows = tile->queries,
                                                         .columns = v->n.size });
    for (int64_t d = 0; d < v->n.size; d++) multiply_by(out + d * TILE, tile->queries, (float)v->scale);
}

VECTOR_CLONES static void cap_row(int n, float cap, float *x) {
    for (int i = 0; i < n; i++) x[i] = softcap_value_f32(x[i], cap);
}

VECTOR_CLONES static void cap_slopes_row(int n, float cap, float *x) {
    for (int i = 0; i < n; i++) x[i] = softcap_slope_f32(x[i], cap);
}

/* Rows of the bias lie along the keys, those of the tile along the queries. */
static void add_bias(const attention_view *v, const attention_tile *tile, float *scores) {
    for (int t = 0; t < tile->queries; t++) {
        int64_t first = (tile->h * v->n.queries + tile->t + t) * v->n.keys + tile->s;
        float wide[TILE];
        const float *row = (const float *)v->bias->data + first;
        if (dtype_is_half(v->bias->dtype)) {
            half_widen(v->bias->dtype, (const uint16_t *)v->bias->data + first, tile->keys, wide);
            row = wide;
        }
        for (int s = 0; s < tile->keys; s++) scores[s * TILE + t] += row[s];
    }
}

void attention_tile_scores(const attention_view *v, const attention_tile *tile, const float *scaled,
                           float *scores) {
    attention_multiply(&(attention_product){ .m = tile->keys,
                                             .n = tile->queries,
                                             .k = v->n.size,
                                             .a = attention_tile_at_keys(v, tile, &v->k),
                                             .a_row = v->k.stride,
                                             .a_column = 1,
                                             .b = scaled,
                                             .b_row = TILE,
                                             .c = scores,
                                             .c_row = TILE });
    attention_tile_finish_scores(v, tile, scores);
}

void attention_tile_finish_scores(const attention_view *v, const attention_tile *tile, float *scores) {
    for (int s = 0; s < tile->keys && v->cap > 0; s++) cap_row(tile->queries, v->cap, scores + s * TILE);
    if (v->bias) add_bias(v, tile, scores);
    attention_tile_hide(v, tile, scores, -INFINITY);
}

void attention_tile_cap_slopes(const attention_view *v, const attention_tile *tile, float *scores) {
    for (int s = 0; s < tile->keys; s++) cap_slopes_row(tile->queries, v->cap, scores + s * TILE);
    attention_tile_hide(v, tile, scores, 0);
}

/* ---- who sees whom ---- */

static int64_t clamp(int64_t x, int64_t high) { return x < 0 ? 0 : x > high ? high : x; }

/* Queries [from, to) of the tile see key s as far as position and window go. Keys beyond the sample's length
 * are not in a tile. */
static void seen_by(const attention_view *v, const attention_tile *tile, int64_t s, int64_t *from,
                    int64_t *to) {
    int64_t low, high;
    attention_sight_queries(&v->sight, tile->t, tile->queries, s, &low, &high);
    *from = clamp(low, tile->queries);
    *to = clamp(high, tile->queries);
}

VECTOR_CLONES static void hide_others(const int32_t *segments, int32_t own, int queries, float *x,
                                      float value) {
    for (int t = 0; t < queries; t++) x[t] = segments[t] == own ? x[t] : value;
}

void attention_tile_hide(const attention_view *v, const attention_tile *tile, float *x, float value) {
    for (int s = 0; s < tile->keys && (v->sight.causal || v->sight.window); s++) {
        int64_t from, to;
        seen_by(v, tile, tile->s + s, &from, &to);
        float *row = x + s * TILE;
        for (int64_t t = 0; t < from; t++) row[t] = value;
        for (int64_t t = to; t < tile->queries; t++) row[t] = value;
    }
    if (!v->sight.segments) return;
    const int32_t *segments = v->sight.segments + tile->b * v->n.queries;
    for (int s = 0; s < tile->keys; s++)
        hide_others(segments + tile->t, segments[tile->s + s], tile->queries, x + s * TILE, value);
}

VECTOR_CLONES static void multiply_row(int n, float *x, const float *y) {
    for (int i = 0; i < n; i++) x[i] *= y[i];
}

void attention_tile_scale(const attention_tile *tile, float *x, const float *y) {
    for (int s = 0; s < tile->keys; s++) multiply_row(tile->queries, x + s * TILE, y + s * TILE);
}

float *attention_tile_take(float *base, uint64_t *used, int64_t count) {
    float *start = base ? base + *used : NULL;
    *used += units_align((uint64_t)count, 16);
    return start;
}
