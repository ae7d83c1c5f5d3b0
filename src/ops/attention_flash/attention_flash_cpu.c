#include <string.h>

#include "ops/attention/attention_dropout.h"
#include "ops/attention/attention_either.h"
#include "ops/attention/attention_product.h"
#include "ops/attention/attention_reference.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/attention_flash/attention_flash_math.h"
#include "ops/attention_flash/attention_flash_pairs.h"
#include "ops/reference.h"
#include "ops/wide_math.h"

enum { TILE = ATTENTION_TILE };

/* ---- reference ---- */

static uint64_t reference_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)attention_view_of(c, 3).n.size * sizeof(double);
}

static void attention_flash_reference(const op_call *c) {
    attention_view v = attention_view_of(c, 3);
    attention_place y = attention_view_rows(&v, &c->out[0]);
    for (int64_t b = 0; b < v.n.batch; b++)
        for (int64_t h = 0; h < v.n.heads; h++)
            for (int64_t t = 0; t < v.n.queries; t++) {
                attention_reference_row row = attention_reference_softmax(&v, b, h, t);
                int64_t at = (b * v.n.heads + h) * v.n.queries + t;
                reference_set(&c->out[1], at, row.sum > 0 ? row.top + wide_log(row.sum) : 0);
                attention_reference_mix(&v, (int64_t[]){ b, h, t }, row, c->scratch, &y);
            }
}

static uint64_t backward_reference_scratch(const op_call *c, int threads) {
    (void)threads;
    attention_view v = attention_view_of(c, 6);
    return attention_reference_scratch(&v.n);
}

static void attention_flash_backward_reference(const op_call *c) {
    attention_view v = attention_view_of(c, 6);
    attention_reference_backward(&(attention_reference_gradient){ .view = v,
                                                                  .out = attention_view_outputs(&v, c),
                                                                  .dy = attention_view_rows(&v, op_in(c, 5)),
                                                                  .y = attention_view_rows(&v, op_in(c, 3)),
                                                                  .lse = op_in(c, 4),
                                                                  .scratch = c->scratch });
}

/* ---- tiles ---- */

/* What one thread works in; all vectors are by query. */
typedef struct {
    float *scaled;             /* (D,64) */
    float *values;             /* (64,D) */
    float *mixed;              /* (64,D) the values so far, times the sum */
    float *weights;            /* (64,64) scores, then their exponentials */
    float *keep;               /* (64,64) */
    float *top, *sum, *shrink; /* (64) maximum so far, sum so far, what a larger maximum does to both */
    uint32_t *words;
} buffers;

static uint64_t carve(const attention_view *v, float *base, buffers *w) {
    uint64_t used = 0;
    bool drops = v->dropout > 0;
    w->scaled = attention_tile_take(base, &used, TILE * v->n.size);
    w->values = attention_tile_take(base, &used, TILE * v->n.size);
    w->mixed = attention_tile_take(base, &used, TILE * v->n.size);
    w->weights = attention_tile_take(base, &used, TILE * TILE);
    w->top = attention_tile_take(base, &used, TILE);
    w->sum = attention_tile_take(base, &used, TILE);
    w->shrink = attention_tile_take(base, &used, TILE);
    w->keep = attention_tile_take(base, &used, drops ? TILE * TILE : 0);
    w->words = (uint32_t *)attention_tile_take(base, &used, drops ? ATTENTION_DROPOUT_WORDS : 0);
    return used;
}

VECTOR_CLONES static void raise_top(int queries, const float *scores, float *top) {
    for (int t = 0; t < queries; t++) top[t] = scores[t] > top[t] ? scores[t] : top[t];
}

VECTOR_CLONES static void shrink_sum(int queries, const float *before, const float *top, float *sum,
                                     float *shrink) {
    for (int t = 0; t < queries; t++) {
        shrink[t] = vector_exp(before[t] - attention_reached(top[t]));
        sum[t] *= shrink[t];
    }
}

VECTOR_CLONES static void add_exponentials(int queries, const float *top, float *scores, float *sum) {
    for (int t = 0; t < queries; t++) {
        scores[t] = vector_exp(scores[t] - attention_reached(top[t]));
        sum[t] += scores[t];
    }
}

VECTOR_CLONES static void multiply_by(float *x, int64_t n, float factor) {
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

static void soften(const attention_tile *tile, const buffers *w) {
    float before[TILE];
    memcpy(before, w->top, sizeof before);
    for (int s = 0; s < tile->keys; s++) raise_top(tile->queries, w->weights + s * TILE, w->top);
    shrink_sum(tile->queries, before, w->top, w->sum, w->shrink);
    for (int s = 0; s < tile->keys; s++)
        add_exponentials(tile->queries, w->top, w->weights + s * TILE, w->sum);
}

static void add_tile(const attention_forward *f, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &f->view;
    attention_tile_scores(v, tile, w->scaled, w->weights);
    soften(tile, w);
    if (v->dropout > 0) {
        attention_dropout(v, tile, w->words, w->keep);
        attention_tile_scale(tile, w->weights, w->keep);
    }
    for (int t = 0; t < tile->queries; t++)
        if (w->shrink[t] != 1.0f) multiply_by(w->mixed + t * v->n.size, v->n.size, w->shrink[t]);
    attention_tile_pack(attention_tile_at_keys(v, tile, &v->v), v->v.stride, tile->keys, v->n.size,
                        w->values);
    attention_multiply(&(attention_product){ .m = tile->queries,
                                             .n = v->n.size,
                                             .k = tile->keys,
                                             .a = w->weights,
                                             .a_row = 1,
                                             .a_column = TILE,
                                             .b = w->values,
                                             .b_row = v->n.size,
                                             .c = w->mixed,
                                             .c_row = v->n.size,
                                             .accumulate = true });
}

static void finish(const attention_forward *f, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &f->view;
    float *y = attention_tile_at_queries(v, tile, &f->y);
    float *lse = f->kept + (tile->b * v->n.heads + tile->h) * v->n.queries + tile->t;
    for (int t = 0; t < tile->queries; t++) {
        lse[t] = attention_flash_lse(w->top[t], w->sum[t]);
        multiply_by(w->mixed + t * v->n.size, v->n.size, attention_share(w->sum[t]));
        memcpy(y + t * f->y.stride, w->mixed + t * v->n.size, (size_t)v->n.size * sizeof *y);
    }
}

static void run_block(const attention_forward *f, attention_tile tile, float *scratch) {
    buffers w;
    carve(&f->view, scratch, &w);
    const attention_view *v = &f->view;
    for (int t = 0; t < TILE; t++) w.top[t] = -INFINITY;
    memset(w.sum, 0, TILE * sizeof *w.sum);
    memset(w.mixed, 0, (size_t)(TILE * v->n.size) * sizeof *w.mixed);
    attention_tile_scaled_queries(v, &tile, w.scaled);
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = tile.s + TILE) add_tile(f, &tile, &w);
    finish(f, &tile, &w);
}

static uint64_t floats_of_block(const attention_view *v) {
    buffers w;
    return carve(v, NULL, &w);
}

static const attention_forward_way way = { floats_of_block, run_block };

static uint64_t tiled_scratch(const op_call *c, int threads) {
    return attention_either_scratch(c, &way, &attention_flash_pairs, threads);
}

static void attention_flash_tiled(const op_call *c) { attention_either_run(c, &way, &attention_flash_pairs); }

static uint64_t backward_tiled_scratch(const op_call *c, int threads) {
    attention_view v = attention_view_of(c, 6);
    return attention_either_gradient_scratch(&v, false, threads);
}

static void attention_flash_backward_tiled(const op_call *c) {
    attention_view v = attention_view_of(c, 6);
    attention_either_gradient_run(&(attention_gradient){ .view = v,
                                                         .out = attention_view_outputs(&v, c),
                                                         .dy = attention_view_rows(&v, op_in(c, 5)),
                                                         .y = attention_view_rows(&v, op_in(c, 3)),
                                                         .lse = op_in(c, 4)->data,
                                                         .scratch = c->scratch });
}

static bool accepts(const op_call *c) { return dtype_wide(op_in(c, 0)->dtype) == DTYPE_F32; }

const op_kernel attention_flash_cpu[] = {
    { "attention_flash_cpu_tiled", accepts, tiled_scratch, attention_flash_tiled },
    { "attention_flash_reference", NULL, reference_scratch, attention_flash_reference },
    { 0 }
};
const op_kernel attention_flash_backward_cpu[] = {
    { "attention_flash_backward_cpu_tiled", accepts, backward_tiled_scratch, attention_flash_backward_tiled },
    { "attention_flash_backward_reference", NULL, backward_reference_scratch,
      attention_flash_backward_reference },
    { 0 }
};
