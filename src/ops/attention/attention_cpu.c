#include <string.h>

#include "ops/attention/attention_dropout.h"
#include "ops/attention/attention_either.h"
#include "ops/attention/attention_pairs_kept.h"
#include "ops/attention/attention_product.h"
#include "ops/attention/attention_reference.h"
#include "ops/reference.h"
#include "ops/softmax/softmax.h"
#include "ops/wide_math.h"

enum { TILE = ATTENTION_TILE };

/* ---- reference ---- */

static uint64_t reference_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)attention_view_of(c, 3).n.size * sizeof(double);
}

static void attention_reference(const op_call *c) {
    attention_view v = attention_view_of(c, 3);
    attention_place y = attention_view_rows(&v, &c->out[0]);
    for (int64_t b = 0; b < v.n.batch; b++)
        for (int64_t h = 0; h < v.n.heads; h++)
            for (int64_t t = 0; t < v.n.queries; t++) {
                attention_reference_row row = attention_reference_softmax(&v, b, h, t);
                int64_t at = ((b * v.n.heads + h) * v.n.queries + t) * v.n.keys;
                for (int64_t s = 0; s < v.n.keys; s++) {
                    bool sees = attention_sight_sees(&v.sight, b, t, s);
                    double score = sees ? attention_reference_score(&v, b, h, t, s) : 0;
                    reference_set(&c->out[1], at + s, sees ? wide_exp(score - row.top) / row.sum : 0);
                }
                attention_reference_mix(&v, (int64_t[]){ b, h, t }, row, c->scratch, &y);
            }
}

static uint64_t backward_reference_scratch(const op_call *c, int threads) {
    (void)threads;
    attention_view v = attention_view_of(c, 5);
    return attention_reference_scratch(&v.n);
}

static void attention_backward_reference(const op_call *c) {
    attention_view v = attention_view_of(c, 5);
    attention_reference_backward(&(attention_reference_gradient){ .view = v,
                                                                  .out = attention_view_outputs(&v, c),
                                                                  .dy = attention_view_rows(&v, op_in(c, 4)),
                                                                  .probs = op_in(c, 3),
                                                                  .scratch = c->scratch });
}

/* ---- tiles: scores of a block of queries into the rows of probs, softmax there, then times the values ----
 */

typedef struct {
    float *scaled;  /* (D,64) */
    float *values;  /* (64,D) */
    float *weights; /* (64,64) */
    float *keep;    /* (64,64) */
    uint32_t *words;
} buffers;

static uint64_t carve(const attention_view *v, float *base, buffers *w) {
    uint64_t used = 0;
    bool drops = v->dropout > 0;
    w->scaled = attention_tile_take(base, &used, TILE * v->n.size);
    w->values = attention_tile_take(base, &used, TILE * v->n.size);
    w->weights = attention_tile_take(base, &used, TILE * TILE);
    w->keep = attention_tile_take(base, &used, drops ? TILE * TILE : 0);
    w->words = (uint32_t *)attention_tile_take(base, &used, drops ? ATTENTION_DROPOUT_WORDS : 0);
    return used;
}

static void fill_probs(const attention_forward *f, attention_tile tile, float *probs, const buffers *w) {
    const attention_view *v = &f->view;
    int64_t keys = v->n.keys, first = keys, last = keys;
    attention_tile_scaled_queries(v, &tile, w->scaled);
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = tile.s + TILE) {
        attention_tile_scores(v, &tile, w->scaled, w->weights);
        attention_tile_transpose(&(attention_transposition){ .in = w->weights,
                                                             .in_stride = TILE,
                                                             .out = probs + tile.s,
                                                             .out_stride = keys,
                                                             .rows = tile.keys,
                                                             .columns = tile.queries });
        if (first == keys) first = tile.s;
        last = tile.s + tile.keys;
    }
    for (int t = 0; t < tile.queries; t++) {
        float *row = probs + t * keys;
        memset(row, 0, (size_t)first * sizeof *row);
        softmax_row_f32(row + first, row + first, last - first);
        memset(row + last, 0, (size_t)(keys - last) * sizeof *row);
    }
}

static void mix_values(const attention_forward *f, attention_tile tile, const float *probs,
                       const buffers *w) {
    const attention_view *v = &f->view;
    bool drops = v->dropout > 0;
    attention_product p = { .m = tile.queries,
                            .n = v->n.size,
                            .a_row = drops ? 1 : v->n.keys,
                            .a_column = drops ? TILE : 1,
                            .b = w->values,
                            .b_row = v->n.size,
                            .c = attention_tile_at_queries(v, &tile, &f->y),
                            .c_row = f->y.stride,
                            .accumulate = true };
    for (int t = 0; t < tile.queries; t++) memset(p.c + t * p.c_row, 0, (size_t)v->n.size * sizeof *p.c);
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = tile.s + TILE) {
        attention_tile_pack(attention_tile_at_keys(v, &tile, &v->v), v->v.stride, tile.keys, v->n.size,
                            w->values);
        p.k = tile.keys;
        p.a = drops ? w->weights : probs + tile.s;
        if (drops) {
            attention_tile_transpose(&(attention_transposition){ .in = probs + tile.s,
                                                                 .in_stride = v->n.keys,
                                                                 .out = w->weights,
                                                                 .out_stride = TILE,
                                                                 .rows = tile.queries,
                                                                 .columns = tile.keys });
            attention_dropout(v, &tile, w->words, w->keep);
            attention_tile_scale(&tile, w->weights, w->keep);
        }
        attention_multiply(&p);
    }
}

static void run_block(const attention_forward *f, attention_tile tile, float *scratch) {
    buffers w;
    carve(&f->view, scratch, &w);
    int64_t row = (tile.b * f->view.n.heads + tile.h) * f->view.n.queries + tile.t;
    float *probs = f->kept + row * f->view.n.keys;
    fill_probs(f, tile, probs, &w);
    mix_values(f, tile, probs, &w);
}

static uint64_t floats_of_block(const attention_view *v) {
    buffers w;
    return carve(v, NULL, &w);
}

static const attention_forward_way way = { floats_of_block, run_block };

static uint64_t tiled_scratch(const op_call *c, int threads) {
    return attention_either_scratch(c, &way, &attention_pairs_kept, threads);
}

static void attention_tiled(const op_call *c) { attention_either_run(c, &way, &attention_pairs_kept); }

static uint64_t backward_tiled_scratch(const op_call *c, int threads) {
    attention_view v = attention_view_of(c, 5);
    return attention_either_gradient_scratch(&v, true, threads);
}

static void attention_backward_tiled(const op_call *c) {
    attention_view v = attention_view_of(c, 5);
    attention_either_gradient_run(&(attention_gradient){ .view = v,
                                                         .out = attention_view_outputs(&v, c),
                                                         .dy = attention_view_rows(&v, op_in(c, 4)),
                                                         .probs = op_in(c, 3)->data,
                                                         .scratch = c->scratch });
}

static bool accepts(const op_call *c) { return dtype_wide(op_in(c, 0)->dtype) == DTYPE_F32; }

const op_kernel attention_cpu[] = { { "attention_cpu_tiled", accepts, tiled_scratch, attention_tiled },
                                    { "attention_reference", NULL, reference_scratch, attention_reference },
                                    { 0 } };
const op_kernel attention_backward_cpu[] = {
    { "attention_backward_cpu_tiled", accepts, backward_tiled_scratch, attention_backward_tiled },
    { "attention_backward_reference", NULL, backward_reference_scratch, attention_backward_reference },
    { 0 }
};
