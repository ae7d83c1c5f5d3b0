#include "ops/attention_flash/attention_flash_pairs.h"

#include <string.h>

#include "ops/attention_flash/attention_flash_math.h"

enum { TILE = ATTENTION_TILE };

/* ---- one tile ---- */

/* What a thread has of its own. */
typedef struct {
    float *scores;     /* (64,64) */
    uint32_t *weights; /* pairs of keys (32,64): exponentials of scores */
    float *shrink;     /* (64) what a larger maximum does to the sum and to the values so far */
} buffers;

static uint64_t carve(float *base, buffers *own) {
    uint64_t used = 0;
    own->scores = attention_tile_take(base, &used, TILE * TILE);
    own->weights = attention_pairs_take_words(base, &used, TILE / 2 * TILE);
    own->shrink = attention_tile_take(base, &used, TILE);
    return used;
}

static uint64_t floats_of_block(const attention_view *v) {
    (void)v;
    return carve(NULL, &(buffers){ 0 });
}

/* Does anything shrink? */
VECTOR_CLONES static bool shrink_sum(const float *restrict before, const float *restrict top,
                                     float *restrict sum, float *restrict shrink) {
    int less = 0;
    for (int t = 0; t < TILE; t++) {
        shrink[t] = vector_exp_bounded(before[t] - attention_reached(top[t]));
        sum[t] *= shrink[t];
        less |= shrink[t] != 1.0f;
    }
    return less;
}

/* What the product left becomes weights. `begun`: the values have a sum already. */
static void soften(const attention_view *v, const attention_tile *tile, bool begun,
                   const attention_pairs_buffers *w, const buffers *own) {
    float before[TILE];
    memcpy(before, w->top, sizeof before);
    attention_pairs_raise(v, tile, w, own->scores);
    if (begun && shrink_sum(before, w->top, w->sum, own->shrink))
        attention_pairs_times(attention_pairs_wide(v), own->shrink, w->mixed);
    attention_pairs_soften(v, tile, w, false, own->scores, own->weights);
}

/* ---- a block ---- */

VECTOR_CLONES static void logarithms(int queries, const float *restrict top, const float *restrict sum,
                                     float *restrict lse) {
    for (int t = 0; t < queries; t++) lse[t] = attention_flash_lse(top[t], sum[t]);
}

/* Products come together, those of the next tile after those of this one: whatever multiplies tiles falls
 * asleep meanwhile and takes as long to wake up as for a product of 64 x 64 x 64. */
static void add_tiles(const attention_pairs_walk *k, attention_tile tile, const attention_pairs_buffers *w) {
    const attention_view *v = &k->forward->view;
    bool more = attention_tile_next(v, &tile, 0), begun = false;
    buffers own;
    carve(w->own, &own);
    if (more) attention_pairs_multiply_keys(k, &tile, w, own.scores);
    for (; more; begun = true) {
        attention_tile next = tile;
        soften(v, &tile, begun, w, &own);
        more = attention_tile_next(v, &next, tile.s + TILE);
        attention_pairs_mix(k, &tile, w, own.weights, begun);
        if (more) attention_pairs_multiply_keys(k, &next, w, own.scores);
        tile = next;
    }
    if (!begun) memset(w->mixed, 0, (size_t)(TILE * attention_pairs_wide(v)) * sizeof *w->mixed);
}

static void run_block(const attention_pairs_walk *k, attention_tile tile, const attention_pairs_buffers *w) {
    const attention_sizes *n = &k->forward->view.n;
    add_tiles(k, tile, w);
    logarithms(tile.queries, w->top, w->sum,
               k->forward->kept + (tile.b * n->heads + tile.h) * n->queries + tile.t);
}

const attention_pairs_way attention_flash_pairs = { floats_of_block, run_block };
