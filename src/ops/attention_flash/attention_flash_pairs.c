#include "ops/attention_flash/attention_flash_pairs.h"

#include <string.h>

#include "base/threads.h"
#include "ops/attention/attention_dropout.h"
#include "ops/attention_flash/attention_flash_math.h"

enum { TILE = ATTENTION_TILE };

/* What one thread works in; vectors are by query. */
typedef struct {
    uint16_t *keys;            /* rows of the head, */
    uint16_t *values;          /* turned, (wide,64) for each tile */
    float *loose;              /* (64,deep) words, for what is between two forms */
    uint32_t *queries;         /* across */
    float *scores;             /* (64,64) */
    uint32_t *weights;         /* pairs of keys (32,64): exponentials of scores */
    float *mixed;              /* (wide,64) the values so far, times the sum */
    float *keep;               /* (64,64) */
    float *top, *sum, *shrink; /* (64) maximum so far, sum so far, what a larger maximum does to both */
    uint32_t *words;
} buffers;

static int64_t key_tiles(const attention_view *v) { return (v->n.keys + TILE - 1) / TILE; }

static uint64_t carve(const attention_view *v, float *base, buffers *w) {
    uint64_t used = 0;
    int64_t deep = attention_pairs_deep(v), wide = attention_pairs_wide(v);
    bool drops = v->dropout > 0;
    w->keys = attention_pairs_take(base, &used, key_tiles(v) * TILE * deep);
    w->values = attention_pairs_take(base, &used, key_tiles(v) * TILE * wide);
    w->loose = attention_tile_take(base, &used, TILE * deep);
    w->queries = attention_pairs_take_words(base, &used, TILE / 2 * deep);
    w->scores = attention_tile_take(base, &used, TILE * TILE);
    w->weights = attention_pairs_take_words(base, &used, TILE / 2 * TILE);
    w->mixed = attention_tile_take(base, &used, TILE * wide);
    w->top = attention_tile_take(base, &used, TILE);
    w->sum = attention_tile_take(base, &used, TILE);
    w->shrink = attention_tile_take(base, &used, TILE);
    w->keep = attention_tile_take(base, &used, drops ? TILE * TILE : 0);
    w->words = attention_pairs_take_words(base, &used, drops ? ATTENTION_DROPOUT_WORDS : 0);
    return used;
}

static uint64_t each_thread(const attention_view *v) {
    buffers w;
    return carve(v, NULL, &w);
}

uint64_t attention_flash_pairs_scratch(const attention_view *v, int threads) {
    return each_thread(v) * (uint64_t)threads * sizeof(float);
}

typedef struct {
    const attention_forward *forward;
    const attention_pairs_kernel *kernel;
    float *scratch;
} walk;

/* ---- one tile ---- */

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

/* Does anything shrink? */
VECTOR_CLONES static bool shrink_sum(const float *restrict before, const float *restrict top,
                                     float *restrict sum, float *restrict shrink) {
    int less = 0;
    for (int t = 0; t < TILE; t++) {
        shrink[t] = vector_exp_bounded(before[t] - attention_flash_reached(top[t]));
        sum[t] *= shrink[t];
        less |= shrink[t] != 1.0f;
    }
    return less;
}

/* Two keys at a time become pairs. */
VECTOR_INLINE void soften_rows(int keys, const int lanes, const bool drops, const buffers *w) {
    float *restrict sum = w->sum, reached[TILE];
    for (int t = 0; t < lanes; t++) reached[t] = attention_flash_reached(w->top[t]);
    for (int s = 0; s < keys; s += 2) {
        const float *restrict scores = w->scores + s * TILE, *restrict keep = w->keep + s * TILE;
        uint32_t *restrict pairs = w->weights + s / 2 * TILE;
        for (int t = 0; t < lanes; t++) {
            float x = vector_exp_bounded(scores[t] - reached[t]);
            float y = vector_exp_bounded(scores[TILE + t] - reached[t]);
            sum[t] = (sum[t] + x) + y;
            if (drops) x *= keep[t], y *= keep[TILE + t];
            pairs[t] = attention_pairs_rounded(x) >> 16 | (attention_pairs_rounded(y) & 0xffff0000u);
        }
    }
}

VECTOR_CLONES static void soften_half(int keys, const buffers *w) { soften_rows(keys, TILE / 2, false, w); }

VECTOR_CLONES static void soften_all(int keys, const buffers *w) { soften_rows(keys, TILE, false, w); }

VECTOR_CLONES static void soften_and_drop(int keys, const buffers *w) { soften_rows(keys, TILE, true, w); }

VECTOR_CLONES static void multiply_lanes(int64_t rows, const float *restrict factor, float *restrict x) {
    for (int64_t d = 0; d < rows; d++)
        for (int t = 0; t < TILE; t++) x[d * TILE + t] *= factor[t];
}

static void multiply_keys(const walk *k, const attention_tile *tile, const buffers *w) {
    int64_t deep = attention_pairs_deep(&k->forward->view);
    k->kernel->multiply(&(attention_pairs_product){ .m = attention_pairs_key_rows(tile),
                                                    .n = attention_pairs_lanes(tile),
                                                    .k = deep,
                                                    .a = w->keys + tile->s * deep,
                                                    .a_row = deep,
                                                    .b = w->queries,
                                                    .b_row = TILE,
                                                    .c = w->scores,
                                                    .c_row = TILE });
}

/* What the product left becomes weights. `begun`: the values have a sum already. */
static void soften(const attention_view *v, const attention_tile *tile, bool begun, const buffers *w) {
    int lanes = attention_pairs_lanes(tile);
    int filled = attention_pairs_key_depth(tile) / 2, used = (tile->keys + 1) / 2;
    bool plain = !(v->cap > 0) && !v->bias && attention_pairs_all_seen(v, tile);
    float before[TILE];
    memcpy(before, w->top, sizeof before);
    if (!plain) attention_pairs_scores(v, tile, lanes, w->scores);
    raise_top(tile->keys, lanes, plain ? (float)v->scale : 1, w->scores, w->top);
    if (begun && shrink_sum(before, w->top, w->sum, w->shrink))
        multiply_lanes(attention_pairs_wide(v), w->shrink, w->mixed);
    attention_pairs_even(tile, w->scores, -INFINITY);
    if (v->dropout > 0) {
        attention_dropout(v, tile, w->words, w->keep);
        attention_pairs_even(tile, w->keep, 0);
        soften_and_drop(tile->keys, w);
    } else
        (lanes == TILE ? soften_all : soften_half)(tile->keys, w);
    memset(w->weights + used * TILE, 0, (size_t)((filled - used) * TILE) * sizeof *w->weights);
}

static void mix_values(const walk *k, const attention_tile *tile, bool begun, const buffers *w) {
    int64_t wide = attention_pairs_wide(&k->forward->view);
    k->kernel->multiply(&(attention_pairs_product){ .m = wide,
                                                    .n = attention_pairs_lanes(tile),
                                                    .k = attention_pairs_key_depth(tile),
                                                    .a = w->values + tile->s * wide,
                                                    .a_row = TILE,
                                                    .b = w->weights,
                                                    .b_row = TILE,
                                                    .c = w->mixed,
                                                    .c_row = TILE,
                                                    .accumulate = begun });
}

/* Products come together, those of the next tile after those of this one: whatever multiplies tiles falls
 * asleep meanwhile and takes as long to wake up as for a product of 64 x 64 x 64. */
static void add_tiles(const walk *k, attention_tile tile, const buffers *w) {
    const attention_view *v = &k->forward->view;
    bool more = attention_tile_next(v, &tile, 0), begun = false;
    if (more) multiply_keys(k, &tile, w);
    for (; more; begun = true) {
        attention_tile next = tile;
        soften(v, &tile, begun, w);
        more = attention_tile_next(v, &next, tile.s + TILE);
        mix_values(k, &tile, begun, w);
        if (more) multiply_keys(k, &next, w);
        tile = next;
    }
    if (!begun) memset(w->mixed, 0, (size_t)(TILE * attention_pairs_wide(v)) * sizeof *w->mixed);
}

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

/* top becomes the logarithm of the sum. */
VECTOR_CLONES static void sums_of(float *restrict top, const float *restrict sum, float *restrict share) {
    for (int t = 0; t < TILE; t++) {
        top[t] = attention_flash_lse(top[t], sum[t]);
        share[t] = attention_flash_share(sum[t]);
    }
}

static void finish(const attention_forward *f, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &f->view;
    float *lse = f->kept + (tile->b * v->n.heads + tile->h) * v->n.queries + tile->t;
    sums_of(w->top, w->sum, w->shrink);
    memcpy(lse, w->top, (size_t)tile->queries * sizeof *lse);
    multiply_lanes(v->n.size, w->shrink, w->mixed);
    attention_tile_transpose(&(attention_transposition){ .in = w->mixed,
                                                         .in_stride = TILE,
                                                         .out = w->loose,
                                                         .out_stride = v->n.size,
                                                         .rows = v->n.size,
                                                         .columns = tile->queries });
    attention_pairs_part y = { &f->y, tile->b * v->n.queries + tile->t, tile->h, tile->queries };
    attention_pairs_give(v, &y, w->loose, v->n.size);
}

static void run_head(void *context, int64_t head, int thread) {
    const walk *k = context;
    const attention_view *v = &k->forward->view;
    int64_t b = head / v->n.heads, h = head % v->n.heads;
    buffers w;
    carve(v, k->scratch + each_thread(v) * (uint64_t)thread, &w);
    attention_tile tile = attention_tile_queries(v, b, h, 0);
    load_keys(v, &tile, &w);
    k->kernel->begin();
    for (int64_t t = 0; t < v->n.queries; t += TILE) {
        tile = attention_tile_queries(v, b, h, t);
        load_queries(k->forward, &tile, &w);
        add_tiles(k, tile, &w);
        finish(k->forward, &tile, &w);
    }
    k->kernel->end();
}

void attention_flash_pairs(const attention_forward *f, const attention_pairs_kernel *kernel, void *scratch) {
    walk k = { f, kernel, scratch };
    threads_for(f->view.n.batch * f->view.n.heads, run_head, &k);
}
