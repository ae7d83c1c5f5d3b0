#include "ops/attention/attention_pairs_forward.h"

#include <string.h>

#include "base/threads.h"
#include "ops/attention/attention_dropout.h"
#include "ops/attention/attention_math.h"
#include "ops/vector_math.h"

enum { TILE = ATTENTION_TILE };

typedef attention_pairs_buffers buffers;

static int64_t key_tiles(const attention_view *v) { return (v->n.keys + TILE - 1) / TILE; }

static uint64_t carve(const attention_view *v, const attention_pairs_way *way, float *base, buffers *w) {
    uint64_t used = 0;
    int64_t deep = attention_pairs_deep(v), wide = attention_pairs_wide(v);
    bool drops = v->dropout > 0;
    w->keys = attention_pairs_take(base, &used, key_tiles(v) * TILE * deep);
    w->values = attention_pairs_take(base, &used, key_tiles(v) * TILE * wide);
    w->loose = attention_tile_take(base, &used, TILE * deep);
    w->queries = attention_pairs_take_words(base, &used, TILE / 2 * deep);
    w->mixed = attention_tile_take(base, &used, TILE * wide);
    w->top = attention_tile_take(base, &used, TILE);
    w->sum = attention_tile_take(base, &used, TILE);
    w->keep = attention_tile_take(base, &used, drops ? TILE * TILE : 0);
    w->words = attention_pairs_take_words(base, &used, drops ? ATTENTION_DROPOUT_WORDS : 0);
    w->own = attention_tile_take(base, &used, (int64_t)way->floats(v));
    return used;
}

static uint64_t each_thread(const attention_view *v, const attention_pairs_way *way) {
    buffers w;
    return carve(v, way, NULL, &w);
}

uint64_t attention_pairs_forward_scratch(const attention_view *v, const attention_pairs_way *way,
                                         int threads) {
    return each_thread(v, way) * (uint64_t)threads * sizeof(float);
}

/* ---- one tile ---- */

void attention_pairs_multiply_keys(const attention_pairs_walk *k, const attention_tile *tile,
                                   const buffers *w, float *scores) {
    int64_t deep = attention_pairs_deep(&k->forward->view);
    k->kernel->multiply(&(attention_pairs_product){ .m = attention_pairs_key_rows(tile),
                                                    .n = attention_pairs_lanes(tile),
                                                    .k = deep,
                                                    .a = w->keys + tile->s * deep,
                                                    .a_row = deep,
                                                    .b = w->queries,
                                                    .b_row = TILE,
                                                    .c = scores,
                                                    .c_row = TILE });
}

VECTOR_INLINE void raise_rows(int keys, const int lanes, float scale, float *restrict scores,
                              float *restrict top) {
    for (int s = 0; s < keys; s++)
        for (int t = 0; t < lanes; t++) {
            float x = scores[s * TILE + t] * scale;
            scores[s * TILE + t] = x;
            top[t] = x > top[t] ? x : top[t];
        }
}

VECTOR_CLONES static void raise_top(int keys, int lanes, float scale, float *scores, float *top) {
    if (lanes == TILE)
        raise_rows(keys, TILE, scale, scores, top);
    else
        raise_rows(keys, TILE / 2, scale, scores, top);
}

void attention_pairs_raise(const attention_view *v, const attention_tile *tile, const buffers *w,
                           float *scores) {
    int lanes = attention_pairs_lanes(tile);
    bool plain = !(v->cap > 0) && !v->bias && attention_pairs_all_seen(v, tile);
    if (!plain) attention_pairs_scores(v, tile, lanes, scores);
    raise_top(tile->keys, lanes, plain ? (float)v->scale : 1, scores, w->top);
}

typedef struct {
    const buffers *w;
    int keys;
    float *scores;
    uint32_t *pairs;
} softening;

/* Two keys at a time become pairs. */
VECTOR_INLINE void soften_rows(const softening *z, const int lanes, const bool drops, const bool keeps) {
    float *restrict sum = z->w->sum, reached[TILE];
    for (int t = 0; t < lanes; t++) reached[t] = attention_reached(z->w->top[t]);
    for (int s = 0; s < z->keys; s += 2) {
        const float *restrict keep = z->w->keep + s * TILE;
        float *restrict scores = z->scores + s * TILE;
        uint32_t *restrict pairs = z->pairs + s / 2 * TILE;
        for (int t = 0; t < lanes; t++) {
            float x = vector_exp_bounded(scores[t] - reached[t]);
            float y = vector_exp_bounded(scores[TILE + t] - reached[t]);
            sum[t] = (sum[t] + x) + y;
            if (keeps) scores[t] = x, scores[TILE + t] = y;
            if (drops) x *= keep[t], y *= keep[TILE + t];
            pairs[t] = attention_pairs_rounded(x) >> 16 | (attention_pairs_rounded(y) & 0xffff0000u);
        }
    }
}

#define SOFTEN(name, lanes, drops, keeps)                                                                    \
    VECTOR_CLONES static void name(const softening *z) { soften_rows(z, lanes, drops, keeps); }
SOFTEN(soften_half, TILE / 2, false, false)
SOFTEN(soften_all, TILE, false, false)
SOFTEN(soften_and_drop, TILE, true, false)
SOFTEN(soften_half_and_keep, TILE / 2, false, true)
SOFTEN(soften_and_keep, TILE, false, true)
SOFTEN(soften_drop_and_keep, TILE, true, true)

void attention_pairs_soften(const attention_view *v, const attention_tile *tile, const buffers *w, bool keeps,
                            float *scores, uint32_t *pairs) {
    const softening z = { w, tile->keys, scores, pairs };
    int filled = attention_pairs_key_depth(tile) / 2, used = (tile->keys + 1) / 2;
    attention_pairs_even(tile, scores, -INFINITY);
    if (v->dropout > 0) {
        attention_dropout(v, tile, w->words, w->keep);
        attention_pairs_even(tile, w->keep, 0);
        (keeps ? soften_drop_and_keep : soften_and_drop)(&z);
    } else if (attention_pairs_lanes(tile) == TILE)
        (keeps ? soften_and_keep : soften_all)(&z);
    else
        (keeps ? soften_half_and_keep : soften_half)(&z);
    memset(pairs + used * TILE, 0, (size_t)((filled - used) * TILE) * sizeof *pairs);
}

void attention_pairs_mix(const attention_pairs_walk *k, const attention_tile *tile, const buffers *w,
                         const uint32_t *pairs, bool begun) {
    int64_t wide = attention_pairs_wide(&k->forward->view);
    k->kernel->multiply(&(attention_pairs_product){ .m = wide,
                                                    .n = attention_pairs_lanes(tile),
                                                    .k = attention_pairs_key_depth(tile),
                                                    .a = w->values + tile->s * wide,
                                                    .a_row = TILE,
                                                    .b = pairs,
                                                    .b_row = TILE,
                                                    .c = w->mixed,
                                                    .c_row = TILE,
                                                    .accumulate = begun });
}

VECTOR_CLONES static void multiply_lanes(int64_t rows, const float *restrict factor, float *restrict x) {
    for (int64_t d = 0; d < rows; d++)
        for (int t = 0; t < TILE; t++) x[d * TILE + t] *= factor[t];
}

void attention_pairs_times(int64_t rows, const float *factor, float *x) { multiply_lanes(rows, factor, x); }

/* ---- a head ---- */

/* Of keys that no query sees nothing is read: in a cache they may not be there yet. */
static void load_keys(const attention_view *v, const attention_tile *head, const buffers *w) {
    int64_t deep = attention_pairs_deep(v), wide = attention_pairs_wide(v), first, last;
    uint16_t *rows = (uint16_t *)w->loose;
    uint32_t *pairs = (uint32_t *)w->loose + TILE / 2 * deep;
    attention_sight_keys(&v->sight, head->b, 0, v->n.queries, &first, &last);
    for (int64_t s = first > 0 ? first / TILE * TILE : 0; s < last; s += TILE) {
        attention_pairs_part k = { &v->k, head->b * v->n.keys + s, head->g,
                                   last - s < TILE ? last - s : TILE };
        attention_pairs_part x = k;
        x.of = &v->v;
        attention_pairs_rows(v, &k, w->keys + s * deep);
        attention_pairs_rows(v, &x, rows);
        attention_pairs_pair(v, rows, pairs);
        attention_pairs_turn(v, pairs, w->values + s * wide);
    }
}

static void load_queries(const attention_forward *f, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &f->view;
    attention_pairs_part q = { &v->q, tile->b * v->n.queries + tile->t, tile->h, tile->queries }, y = q;
    uint16_t *rows = (uint16_t *)w->loose;
    y.of = &f->y;
    attention_pairs_rows(v, &q, rows);
    attention_pairs_cross(v, rows, w->queries);
    attention_pairs_expect(v, &y);
    for (int t = 0; t < TILE; t++) w->top[t] = -INFINITY;
    memset(w->sum, 0, TILE * sizeof *w->sum);
}

static void finish(const attention_forward *f, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &f->view;
    float share[TILE];
    for (int t = 0; t < TILE; t++) share[t] = attention_share(w->sum[t]);
    multiply_lanes(v->n.size, share, w->mixed);
    attention_tile_transpose(&(attention_transposition){ .in = w->mixed,
                                                         .in_stride = TILE,
                                                         .out = w->loose,
                                                         .out_stride = v->n.size,
                                                         .rows = v->n.size,
                                                         .columns = tile->queries });
    attention_pairs_part y = { &f->y, tile->b * v->n.queries + tile->t, tile->h, tile->queries };
    attention_pairs_give(v, &y, w->loose, v->n.size);
}

typedef struct {
    attention_pairs_walk each;
    const attention_pairs_way *way;
    float *scratch;
} walk;

static void run_head(void *context, int64_t head, int thread) {
    const walk *k = context;
    const attention_forward *f = k->each.forward;
    const attention_view *v = &f->view;
    int64_t b = head / v->n.heads, h = head % v->n.heads;
    buffers w;
    carve(v, k->way, k->scratch + each_thread(v, k->way) * (uint64_t)thread, &w);
    attention_tile tile = attention_tile_queries(v, b, h, 0);
    load_keys(v, &tile, &w);
    k->each.kernel->begin();
    for (int64_t t = 0; t < v->n.queries; t += TILE) {
        tile = attention_tile_queries(v, b, h, t);
        load_queries(f, &tile, &w);
        k->way->block(&k->each, tile, &w);
        finish(f, &tile, &w);
    }
    k->each.kernel->end();
}

void attention_pairs_forward_run(const attention_forward *f, const attention_pairs_kernel *kernel,
                                 const attention_pairs_way *way, void *scratch) {
    walk k = { { f, kernel }, way, scratch };
    threads_for(f->view.n.batch * f->view.n.heads, run_head, &k);
}
