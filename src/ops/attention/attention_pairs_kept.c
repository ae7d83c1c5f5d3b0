#include "ops/attention/attention_pairs_kept.h"

#include <string.h>

#include "ops/attention/attention_math.h"

enum { TILE = ATTENTION_TILE };

typedef struct {
    float *strip;      /* (S filled up, 64) scores, then their exponentials */
    uint32_t *weights; /* pairs of keys (32,64) of each tile: exponentials after dropout */
} buffers;

static uint64_t carve(const attention_view *v, float *base, buffers *own) {
    uint64_t used = 0;
    int64_t rows = (v->n.keys + TILE - 1) / TILE * TILE;
    own->strip = attention_tile_take(base, &used, rows * TILE);
    own->weights = attention_pairs_take_words(base, &used, rows / 2 * TILE);
    return used;
}

static uint64_t floats_of_block(const attention_view *v) { return carve(v, NULL, &(buffers){ 0 }); }

/* Exponentials become rows of probabilities, 0 where no query of the block sees a key. */
static void put_probs(const attention_forward *f, attention_tile tile, const attention_pairs_buffers *w,
                      float *strip) {
    const attention_view *v = &f->view;
    int64_t keys = v->n.keys, first = 0, last = 0;
    float *rows = f->kept + ((tile.b * v->n.heads + tile.h) * v->n.queries + tile.t) * keys, share[TILE];
    for (int t = 0; t < TILE; t++) share[t] = attention_share(w->sum[t]);
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = last) {
        if (from == 0) first = tile.s;
        last = tile.s + tile.keys;
        attention_pairs_times(tile.keys, share, strip + tile.s * TILE);
        attention_tile_transpose(&(attention_transposition){ .in = strip + tile.s * TILE,
                                                             .in_stride = TILE,
                                                             .out = rows + tile.s,
                                                             .out_stride = keys,
                                                             .rows = tile.keys,
                                                             .columns = tile.queries });
    }
    for (int t = 0; t < tile.queries; t++) {
        memset(rows + t * keys, 0, (size_t)first * sizeof *rows);
        memset(rows + t * keys + last, 0, (size_t)(keys - last) * sizeof *rows);
    }
}

static void run_block(const attention_pairs_walk *k, attention_tile tile, const attention_pairs_buffers *w) {
    const attention_view *v = &k->forward->view;
    attention_tile at = tile;
    bool begun = false;
    buffers own;
    carve(v, w->own, &own);
    for (int64_t from = 0; attention_tile_next(v, &at, from); from = at.s + TILE)
        attention_pairs_multiply_keys(k, &at, w, own.strip + at.s * TILE);
    for (int64_t from = 0; attention_tile_next(v, &at, from); from = at.s + TILE)
        attention_pairs_raise(v, &at, w, own.strip + at.s * TILE);
    for (int64_t from = 0; attention_tile_next(v, &at, from); from = at.s + TILE)
        attention_pairs_soften(v, &at, w, true, own.strip + at.s * TILE, own.weights + at.s / 2 * TILE);
    for (int64_t from = 0; attention_tile_next(v, &at, from); from = at.s + TILE, begun = true)
        attention_pairs_mix(k, &at, w, own.weights + at.s / 2 * TILE, begun);
    if (!begun) memset(w->mixed, 0, (size_t)(TILE * attention_pairs_wide(v)) * sizeof *w->mixed);
    put_probs(k->forward, tile, w, own.strip);
}

const attention_pairs_way attention_pairs_kept = { floats_of_block, run_block };
