#include "ops/attention/attention_pairs.h"

#include <string.h>

#include "base/half.h"
#include "base/threads.h"
#include "ops/matmul/matmul_kernel.h"

enum { TILE = ATTENTION_TILE };

const attention_pairs_kernel *attention_pairs_chosen(const attention_view *v) {
    const matmul_kernel *kernel = v->q.arg->dtype == DTYPE_BF16 ? matmul_kernel_chosen_pairs() : NULL;
#if defined(__x86_64__)
    if (kernel == &matmul_kernel_amx) return &attention_pairs_amx;
#endif
    return kernel == &matmul_kernel_amx_twin ? &attention_pairs_twin : NULL;
}

/* ---- forms ---- */

static uint16_t *row_at(const attention_view *v, const attention_pairs_part *p, int64_t r) {
    return (uint16_t *)p->of->arg->data + attention_element(v, p->of, p->row + r, p->head);
}

enum { LINE = 32 /* numbers in a line of a cache */ };

/* Rows of a head are short and lie far apart, so no processor sees the next ones coming: those of the head
 * that this thread is likely to get next are asked for here, `ahead` numbers further. */
VECTOR_CLONES static void copy_row(const uint16_t *from, int64_t ahead, int64_t size, int64_t deep,
                                   uint16_t *row) {
    int64_t i = 0;
    for (; i + LINE <= size; i += LINE) {
        __builtin_prefetch(from + i + ahead, 0, 2);
        memcpy(row + i, from + i, LINE * sizeof *row);
    }
    for (; i < size; i++) row[i] = from[i];
    for (; i < deep; i++) row[i] = 0;
}

void attention_pairs_rows(const attention_view *v, const attention_pairs_part *p, uint16_t *rows) {
    int64_t deep = attention_pairs_deep(v), size = v->n.size, ahead = threads_count() * size;
    for (int64_t r = 0; r < p->count; r++) copy_row(row_at(v, p, r), ahead, size, deep, rows + r * deep);
    memset(rows + p->count * deep, 0, (size_t)((TILE - p->count) * deep) * sizeof *rows);
}

void attention_pairs_expect(const attention_view *v, const attention_pairs_part *p) {
    for (int64_t r = 0; r < p->count; r++)
        for (int64_t i = 0; i < v->n.size; i += LINE) __builtin_prefetch(row_at(v, p, r) + i, 1, 2);
}

void attention_pairs_give(const attention_view *v, const attention_pairs_part *p, const float *from,
                          int64_t stride) {
    for (int64_t r = 0; r < p->count; r++)
        half_narrow(DTYPE_BF16, from + r * stride, v->n.size, row_at(v, p, r));
}

VECTOR_CLONES static void weave(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *words) {
    for (int64_t i = 0; i < n; i++) words[i] = even[i] | (uint32_t)odd[i] << 16;
}

void attention_pairs_pair(const attention_view *v, const uint16_t *rows, uint32_t *pairs) {
    int64_t deep = attention_pairs_deep(v), wide = attention_pairs_wide(v);
    for (int r = 0; r < TILE; r += 2)
        weave(rows + r * deep, rows + (r + 1) * deep, wide, pairs + r / 2 * wide);
}

/* Words are moved as floats, which changes nothing in them. */
static void transpose(const void *from, int64_t rows, int64_t columns, void *to) {
    attention_tile_transpose(&(attention_transposition){
        .in = from, .in_stride = columns, .out = to, .out_stride = rows, .rows = rows, .columns = columns });
}

void attention_pairs_turn(const attention_view *v, const uint32_t *pairs, uint16_t *turned) {
    transpose(pairs, TILE / 2, attention_pairs_wide(v), turned);
}

void attention_pairs_cross(const attention_view *v, const uint16_t *rows, uint32_t *across) {
    transpose(rows, TILE, attention_pairs_deep(v) / 2, across);
}

/* ---- tiles ---- */

bool attention_pairs_all_seen(const attention_view *v, const attention_tile *tile) {
    const attention_sight *sight = &v->sight;
    int64_t from, to;
    if (sight->segments) return false;
    attention_sight_queries(sight, tile->t, tile->queries, tile->s + tile->keys - 1, &from, &to);
    if (from > 0) return false; /* the last key comes too late for the first query */
    attention_sight_queries(sight, tile->t, tile->queries, tile->s, &from, &to);
    return to >= tile->queries; /* nor is the first one too far from the last query */
}

VECTOR_CLONES static void scale_rows(int rows, int lanes, float scale, float *x) {
    for (int s = 0; s < rows; s++)
        for (int t = 0; t < lanes; t++) x[s * TILE + t] *= scale;
}

void attention_pairs_scores(const attention_view *v, const attention_tile *tile, int lanes, float *scores) {
    scale_rows(tile->keys, lanes, (float)v->scale, scores);
    attention_tile_finish_scores(v, tile, scores);
}

void attention_pairs_even(const attention_tile *tile, float *x, float value) {
    for (int t = 0; t < TILE && tile->keys % 2; t++) x[tile->keys * TILE + t] = value;
}

uint16_t *attention_pairs_take(float *base, uint64_t *used, int64_t count) {
    return (uint16_t *)attention_tile_take(base, used, (count + 1) / 2);
}

uint32_t *attention_pairs_take_words(float *base, uint64_t *used, int64_t count) {
    return (uint32_t *)attention_tile_take(base, used, count);
}
