#include "ops/attention/attention_pairs_gradient.h"

#include <string.h>

#include "base/half.h"
#include "base/threads.h"
#include "ops/attention/attention_dropout.h"
#include "ops/vector_math.h"

enum { TILE = ATTENTION_TILE };

/* What one thread works in. */
typedef struct {
    uint16_t *keys, *values; /* rows of the head, */
    uint16_t *turned;        /* its keys turned, (wide,64) for each tile, */
    float *dk, *dv;          /* and what comes of it, (S filled, wide) */
    float *loose;            /* (64,deep) words, for what is between two forms */
    uint32_t *queries, *dy;  /* across, */
    uint32_t *query_pairs, *dy_pairs;
    float *dq;                   /* (wide,64) */
    float *scores;               /* (64,64) from the product; with probs only where there is a cap */
    float *slopes;               /* (64,64) of probabilities; with probs (S filled,64), after dropout */
    float *probs;                /* (S filled,64), with probs */
    uint16_t *weights, *changes; /* rows (64,64): probabilities after dropout, gradient of scores */
    uint32_t *change_pairs;      /* the same gradient in pairs of keys (32,64) */
    float *lse;                  /* (64) */
    float *common;               /* (64) sum over the keys of probability times slope */
    float *keep;                 /* (64,64) dropout */
    float *bends;                /* (64,64) slopes of the scores' cap */
    uint32_t *words;
} buffers;

static int64_t key_tiles(const attention_view *v) { return (v->n.keys + TILE - 1) / TILE; }

static uint64_t carve(const attention_view *v, bool probs, float *base, buffers *w) {
    uint64_t used = 0;
    int64_t deep = attention_pairs_deep(v), wide = attention_pairs_wide(v), keys = key_tiles(v) * TILE;
    int64_t drops = v->dropout > 0, caps = v->cap > 0;
    w->keys = attention_pairs_take(base, &used, keys * deep);
    w->values = attention_pairs_take(base, &used, keys * deep);
    w->turned = attention_pairs_take(base, &used, keys * wide);
    w->dk = attention_tile_take(base, &used, keys * wide);
    w->dv = attention_tile_take(base, &used, keys * wide);
    w->loose = attention_tile_take(base, &used, TILE * deep);
    w->queries = attention_pairs_take_words(base, &used, TILE / 2 * deep);
    w->dy = attention_pairs_take_words(base, &used, TILE / 2 * deep);
    w->query_pairs = attention_pairs_take_words(base, &used, TILE / 2 * wide);
    w->dy_pairs = attention_pairs_take_words(base, &used, TILE / 2 * wide);
    w->dq = attention_tile_take(base, &used, TILE * wide);
    w->scores = attention_tile_take(base, &used, probs && !caps ? 0 : TILE * TILE);
    w->slopes = attention_tile_take(base, &used, (probs ? keys : TILE) * TILE);
    w->probs = attention_tile_take(base, &used, probs ? keys * TILE : 0);
    w->weights = attention_pairs_take(base, &used, TILE * TILE);
    w->changes = attention_pairs_take(base, &used, TILE * TILE);
    w->change_pairs = attention_pairs_take_words(base, &used, TILE / 2 * TILE);
    w->lse = attention_tile_take(base, &used, TILE);
    w->common = attention_tile_take(base, &used, TILE);
    w->keep = attention_tile_take(base, &used, drops * TILE * TILE);
    w->bends = attention_tile_take(base, &used, caps * TILE * TILE);
    w->words = attention_pairs_take_words(base, &used, drops * ATTENTION_DROPOUT_WORDS);
    return used;
}

static uint64_t each_thread(const attention_view *v, bool probs) {
    buffers w;
    return carve(v, probs, NULL, &w);
}

uint64_t attention_pairs_gradient_scratch(const attention_view *v, bool probs, int threads) {
    return each_thread(v, probs) * (uint64_t)threads * sizeof(float);
}

typedef struct {
    const attention_gradient *gradient;
    const attention_pairs_kernel *kernel;
} walk;

/* ---- one tile ---- */

/* What a pair of keys needs of the elements of a tile. */
typedef struct {
    int keys;
    float scale, factor; /* of gradients of scores, and of scores that are not scaled yet */
    const float *from;   /* (64,64) scores, or with probs probabilities */
    const float *slopes; /* (64,64) of probabilities; with probs dropout is on them */
    const float *lse, *common;
} rates;

/* Two keys at a time. */
VECTOR_INLINE void change_rows(const rates *r, const int lanes, const bool probs, const bool drops,
                               const bool caps, const buffers *w) {
    const float scale = r->scale, factor = r->factor;
    const float *restrict lse = r->lse, *restrict common = r->common;
    for (int s = 0; s < r->keys; s += 2) {
        const int at = s * TILE;
        const float *restrict x = r->from + at, *restrict g = r->slopes + at;
        const float *restrict keep = w->keep + at, *restrict bend = w->bends + at;
        uint16_t *restrict weights = w->weights + at, *restrict changes = w->changes + at;
        uint32_t *restrict pairs = w->change_pairs + at / 2;
        for (int t = 0, u = TILE; t < lanes; t++, u++) {
            float p = probs ? x[t] : vector_exp(vector_fused(x[t], factor, -lse[t]));
            float q = probs ? x[u] : vector_exp(vector_fused(x[u], factor, -lse[t]));
            float slope_p = drops && !probs ? g[t] * keep[t] : g[t];
            float slope_q = drops && !probs ? g[u] * keep[u] : g[u];
            float change_p = p * (slope_p - common[t]) * scale, change_q = q * (slope_q - common[t]) * scale;
            if (caps) change_p *= bend[t], change_q *= bend[u];
            if (drops) p *= keep[t], q *= keep[u];
            uint32_t low = attention_pairs_rounded(change_p) >> 16, high = attention_pairs_rounded(change_q);
            weights[t] = (uint16_t)(attention_pairs_rounded(p) >> 16);
            weights[u] = (uint16_t)(attention_pairs_rounded(q) >> 16);
            changes[t] = (uint16_t)low, changes[u] = (uint16_t)(high >> 16);
            pairs[t] = low | (high & 0xffff0000u);
        }
    }
}

#define CHANGE(name, lanes, probs, drops, caps)                                                              \
    VECTOR_CLONES static void name(const rates *r, const buffers *w) {                                       \
        change_rows(r, lanes, probs, drops, caps, w);                                                        \
    }
CHANGE(change_half, TILE / 2, false, false, false)
CHANGE(change_all, TILE, false, false, false)
CHANGE(change_and_drop, TILE, false, true, false)
CHANGE(change_and_bend, TILE, false, false, true)
CHANGE(change_drop_and_bend, TILE, false, true, true)
CHANGE(kept_half, TILE / 2, true, false, false)
CHANGE(kept_all, TILE, true, false, false)
CHANGE(kept_and_drop, TILE, true, true, false)
CHANGE(kept_and_bend, TILE, true, false, true)
CHANGE(kept_drop_and_bend, TILE, true, true, true)

static void change(const attention_view *v, const attention_tile *tile, bool probs, const rates *r,
                   const buffers *w) {
    bool drops = v->dropout > 0, caps = v->cap > 0;
    if (drops && caps)
        (probs ? kept_drop_and_bend : change_drop_and_bend)(r, w);
    else if (drops)
        (probs ? kept_and_drop : change_and_drop)(r, w);
    else if (caps)
        (probs ? kept_and_bend : change_and_bend)(r, w);
    else if (attention_pairs_lanes(tile) == TILE)
        (probs ? kept_all : change_all)(r, w);
    else
        (probs ? kept_half : change_half)(r, w);
    size_t used = (size_t)(tile->keys + 1) / 2 * 2, filled = (size_t)attention_pairs_key_depth(tile);
    memset(w->weights + used * TILE, 0, (filled - used) * TILE * sizeof *w->weights);
    memset(w->changes + used * TILE, 0, (filled - used) * TILE * sizeof *w->changes);
    memset(w->change_pairs + used / 2 * TILE, 0, (filled - used) / 2 * TILE * sizeof *w->change_pairs);
}

/* Rows of the head's keys or values by what comes of the queries. */
static void multiply_keys(const walk *k, const attention_tile *tile, const uint16_t *rows,
                          const uint32_t *across, float *to) {
    int64_t deep = attention_pairs_deep(&k->gradient->view);
    k->kernel->multiply(&(attention_pairs_product){ .m = attention_pairs_key_rows(tile),
                                                    .n = attention_pairs_lanes(tile),
                                                    .k = deep,
                                                    .a = rows + tile->s * deep,
                                                    .a_row = deep,
                                                    .b = across,
                                                    .b_row = TILE,
                                                    .c = to,
                                                    .c_row = TILE });
}

static void load_products(const walk *k, const attention_tile *tile, const buffers *w) {
    multiply_keys(k, tile, w->keys, w->queries, w->scores);
    multiply_keys(k, tile, w->values, w->dy, w->slopes);
}

static void load_keep(const attention_view *v, const attention_tile *tile, const buffers *w) {
    if (!(v->dropout > 0)) return;
    attention_dropout(v, tile, w->words, w->keep);
    attention_pairs_even(tile, w->keep, 0);
}

/* What the cap takes of gradients of scores, from these. */
static void load_bends(const attention_view *v, const attention_tile *tile, const buffers *w) {
    memcpy(w->bends, w->scores, (size_t)tile->keys * TILE * sizeof *w->bends);
    attention_tile_cap_slopes(v, tile, w->bends);
    attention_pairs_even(tile, w->bends, 0);
}

static void load_changes(const walk *k, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &k->gradient->view;
    bool plain = !(v->cap > 0) && attention_pairs_all_seen(v, tile);
    rates r = { .keys = tile->keys,
                .scale = (float)v->scale,
                .factor = plain ? (float)v->scale : 1,
                .from = w->scores,
                .slopes = w->slopes,
                .lse = w->lse,
                .common = w->common };
    if (!plain) attention_pairs_scores(v, tile, attention_pairs_lanes(tile), w->scores);
    if (v->cap > 0) load_bends(v, tile, w);
    attention_pairs_even(tile, w->scores, -INFINITY);
    attention_pairs_even(tile, w->slopes, 0);
    load_keep(v, tile, w);
    change(v, tile, false, &r, w);
}

static void add_changes(const walk *k, const attention_tile *tile, const buffers *w) {
    int64_t wide = attention_pairs_wide(&k->gradient->view);
    attention_pairs_product to_keys = { .m = attention_pairs_key_rows(tile),
                                        .n = wide,
                                        .k = attention_pairs_lanes(tile),
                                        .a = w->weights,
                                        .a_row = TILE,
                                        .b = w->dy_pairs,
                                        .b_row = wide,
                                        .c = w->dv + tile->s * wide,
                                        .c_row = wide,
                                        .accumulate = true };
    k->kernel->multiply(&to_keys);
    to_keys.a = w->changes, to_keys.b = w->query_pairs, to_keys.c = w->dk + tile->s * wide;
    k->kernel->multiply(&to_keys);
    k->kernel->multiply(&(attention_pairs_product){ .m = wide,
                                                    .n = attention_pairs_lanes(tile),
                                                    .k = attention_pairs_key_depth(tile),
                                                    .a = w->turned + tile->s * wide,
                                                    .a_row = TILE,
                                                    .b = w->change_pairs,
                                                    .b_row = TILE,
                                                    .c = w->dq,
                                                    .c_row = TILE,
                                                    .accumulate = true });
}

/* Products come together, as in the forward pass. */
static void add_tiles(const walk *k, attention_tile tile, const buffers *w) {
    const attention_view *v = &k->gradient->view;
    bool more = attention_tile_next(v, &tile, 0);
    if (more) load_products(k, &tile, w);
    while (more) {
        attention_tile next = tile;
        load_changes(k, &tile, w);
        more = attention_tile_next(v, &next, tile.s + TILE);
        add_changes(k, &tile, w);
        if (more) load_products(k, &next, w);
        tile = next;
    }
}

/* ---- tiles of kept probabilities ---- */

/* The tile's first query in a (B,H,T) array. */
static int64_t row_of(const attention_gradient *a, const attention_tile *tile) {
    return (tile->b * a->view.n.heads + tile->h) * a->view.n.queries + tile->t;
}

static void load_probs(const attention_gradient *a, const attention_tile *tile, float *probs) {
    const attention_view *v = &a->view;
    if (tile->queries < TILE) memset(probs, 0, (size_t)tile->keys * TILE * sizeof *probs);
    attention_tile_transpose(
        &(attention_transposition){ .in = a->probs + row_of(a, tile) * v->n.keys + tile->s,
                                    .in_stride = v->n.keys,
                                    .out = probs,
                                    .out_stride = TILE,
                                    .rows = tile->queries,
                                    .columns = tile->keys });
    if (!attention_pairs_all_seen(v, tile)) attention_tile_hide(v, tile, probs, 0);
    attention_pairs_even(tile, probs, 0);
}

VECTOR_CLONES static void add_common(int keys, const float *restrict probs, const float *restrict slopes,
                                     float *restrict common) {
    for (int s = 0; s < keys; s++)
        for (int t = 0; t < TILE; t++) common[t] += probs[s * TILE + t] * slopes[s * TILE + t];
}

/* Lanes that no product fills. */
static void clear_lanes(const attention_tile *tile, float *x) {
    int lanes = attention_pairs_lanes(tile);
    for (int s = 0; s < tile->keys && lanes < TILE; s++)
        memset(x + s * TILE + lanes, 0, (size_t)(TILE - lanes) * sizeof *x);
}

static void gather(const walk *k, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &k->gradient->view;
    float *probs = w->probs + tile->s * TILE, *slopes = w->slopes + tile->s * TILE;
    load_probs(k->gradient, tile, probs);
    clear_lanes(tile, slopes);
    load_keep(v, tile, w);
    if (v->dropout > 0) attention_tile_scale(tile, slopes, w->keep);
    attention_pairs_even(tile, slopes, 0);
    add_common(tile->keys, probs, slopes, w->common);
}

static void load_kept_changes(const walk *k, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &k->gradient->view;
    rates r = { .keys = tile->keys,
                .scale = (float)v->scale,
                .from = w->probs + tile->s * TILE,
                .slopes = w->slopes + tile->s * TILE,
                .lse = w->lse,
                .common = w->common };
    if (v->cap > 0) {
        multiply_keys(k, tile, w->keys, w->queries, w->scores);
        attention_pairs_scores(v, tile, attention_pairs_lanes(tile), w->scores);
        load_bends(v, tile, w);
    }
    load_keep(v, tile, w);
    change(v, tile, true, &r, w);
}

static void add_kept_tiles(const walk *k, attention_tile tile, const buffers *w) {
    const attention_view *v = &k->gradient->view;
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = tile.s + TILE)
        multiply_keys(k, &tile, w->values, w->dy, w->slopes + tile.s * TILE);
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = tile.s + TILE) gather(k, &tile, w);
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = tile.s + TILE) {
        load_kept_changes(k, &tile, w);
        add_changes(k, &tile, w);
    }
}

/* ---- a block of queries ---- */

/* Sixteen partial sums, then a tree: one order on every machine. */
VECTOR_CLONES static float inner(const uint16_t *x, const uint16_t *y, int64_t n) {
    float lanes[16] = { 0 };
    for (int64_t i = 0; i < n; i += 16)
        for (int l = 0; l < 16; l++) lanes[l] += half_from_bf16(x[i + l]) * half_from_bf16(y[i + l]);
    for (int width = 8; width; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0];
}

static attention_pairs_part queries_of(const attention_gradient *a, const attention_tile *tile,
                                       const attention_place *of) {
    return (attention_pairs_part){ of, tile->b * a->view.n.queries + tile->t, tile->h, tile->queries };
}

/* Probabilities come from lse, and the sum of their products with their slopes from y; with probs both come
 * from them. */
static void load_sums(const attention_gradient *a, const attention_tile *tile, const uint16_t *dy,
                      const buffers *w) {
    const attention_view *v = &a->view;
    int64_t deep = attention_pairs_deep(v);
    memset(w->lse, 0, TILE * sizeof *w->lse);
    memset(w->common, 0, TILE * sizeof *w->common);
    if (a->probs) return;
    uint16_t *y = (uint16_t *)w->loose + TILE * deep;
    attention_pairs_part of_y = queries_of(a, tile, &a->y);
    attention_pairs_rows(v, &of_y, y);
    for (int t = 0; t < TILE; t++) w->common[t] = inner(y + t * deep, dy + t * deep, deep);
    memcpy(w->lse, a->lse + row_of(a, tile), (size_t)tile->queries * sizeof *w->lse);
}

static void load_queries(const attention_gradient *a, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &a->view;
    uint16_t *rows = (uint16_t *)w->loose;
    attention_pairs_part q = queries_of(a, tile, &v->q), dy = queries_of(a, tile, &a->dy),
                         dq = queries_of(a, tile, &a->out.q);
    attention_pairs_rows(v, &q, rows);
    attention_pairs_pair(v, rows, w->query_pairs);
    attention_pairs_cross(v, rows, w->queries);
    attention_pairs_rows(v, &dy, rows);
    attention_pairs_pair(v, rows, w->dy_pairs);
    attention_pairs_cross(v, rows, w->dy);
    attention_pairs_expect(v, &dq);
    load_sums(a, tile, rows, w);
    if (v->dropout > 0) memset(w->keep, 0, TILE * TILE * sizeof *w->keep);
    memset(w->dq, 0, (size_t)(TILE * attention_pairs_wide(v)) * sizeof *w->dq);
}

static void add_block(const walk *k, attention_tile tile, const buffers *w) {
    const attention_gradient *a = k->gradient;
    const attention_view *v = &a->view;
    load_queries(a, &tile, w);
    (a->probs ? add_kept_tiles : add_tiles)(k, tile, w);
    attention_tile_transpose(&(attention_transposition){ .in = w->dq,
                                                         .in_stride = TILE,
                                                         .out = w->loose,
                                                         .out_stride = v->n.size,
                                                         .rows = v->n.size,
                                                         .columns = tile.queries });
    attention_pairs_part dq = queries_of(a, &tile, &a->out.q);
    attention_pairs_give(v, &dq, w->loose, v->n.size);
}

/* ---- a head of keys ---- */

/* Of keys that no query sees nothing is read, and their gradients are 0. */
static void load_keys(const attention_view *v, const attention_tile *head, const buffers *w) {
    int64_t deep = attention_pairs_deep(v), wide = attention_pairs_wide(v), first, last;
    size_t sums = (size_t)(key_tiles(v) * TILE * wide);
    uint32_t *pairs = (uint32_t *)w->loose;
    attention_sight_keys(&v->sight, head->b, 0, v->n.queries, &first, &last);
    for (int64_t s = first > 0 ? first / TILE * TILE : 0; s < last; s += TILE) {
        attention_pairs_part k = { &v->k, head->b * v->n.keys + s, head->g,
                                   last - s < TILE ? last - s : TILE };
        attention_pairs_part x = k;
        x.of = &v->v;
        attention_pairs_rows(v, &k, w->keys + s * deep);
        attention_pairs_rows(v, &x, w->values + s * deep);
        attention_pairs_pair(v, w->keys + s * deep, pairs);
        attention_pairs_turn(v, pairs, w->turned + s * wide);
    }
    memset(w->dk, 0, sums * sizeof *w->dk);
    memset(w->dv, 0, sums * sizeof *w->dv);
}

static void run_head(void *context, int64_t index, int thread) {
    const walk *k = context;
    const attention_gradient *a = k->gradient;
    const attention_view *v = &a->view;
    int64_t b = index / v->n.kv_heads, g = index % v->n.kv_heads, group = v->n.heads / v->n.kv_heads;
    int64_t wide = attention_pairs_wide(v);
    attention_pairs_part dk = { &a->out.k, b * v->n.keys, g, v->n.keys }, dv = dk;
    buffers w;
    dv.of = &a->out.v;
    bool probs = a->probs != NULL;
    carve(v, probs, (float *)a->scratch + each_thread(v, probs) * (uint64_t)thread, &w);
    load_keys(v, &(attention_tile){ .b = b, .g = g }, &w);
    attention_pairs_expect(v, &dk);
    attention_pairs_expect(v, &dv);
    k->kernel->begin();
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t t = 0; t < v->n.queries; t += TILE) add_block(k, attention_tile_queries(v, b, h, t), &w);
    k->kernel->end();
    attention_pairs_give(v, &dk, w.dk, wide);
    attention_pairs_give(v, &dv, w.dv, wide);
}

void attention_pairs_gradient(const attention_gradient *a, const attention_pairs_kernel *kernel) {
    walk k = { a, kernel };
    threads_for(a->view.n.batch * a->view.n.kv_heads, run_head, &k);
}
