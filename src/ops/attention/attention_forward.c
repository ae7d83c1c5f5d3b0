#include "ops/attention/attention_forward.h"

#include "base/threads.h"
#include "ops/attention/attention_head.h"

enum { TILE = ATTENTION_TILE };

typedef struct {
    attention_forward forward;
    const attention_forward_way *way;
    float *scratch;
} walk;

static int64_t blocks_of(const attention_view *v) { return (v->n.queries + TILE - 1) / TILE; }

/* Numbers of scratch for a thread: a block's and, where operands are narrow, q, y, k and v of a head. */
static uint64_t each_thread(const attention_view *v, const attention_forward_way *way) {
    uint64_t used = way->floats(v);
    if (!attention_head_is_narrow(v)) return used;
    return used + attention_head_floats(v, v->n.queries, 2) + attention_head_floats(v, v->n.keys, 2);
}

static float *scratch_of(const walk *w, int thread) {
    return w->scratch + each_thread(&w->forward.view, w->way) * (uint64_t)thread;
}

/* Late blocks first: where attention is causal they are the long ones. */
static void run_block(void *context, int64_t index, int thread) {
    const walk *w = context;
    const attention_view *v = &w->forward.view;
    int64_t heads = v->n.batch * v->n.heads, head = index % heads, block = blocks_of(v) - 1 - index / heads;
    attention_tile tile = attention_tile_queries(v, head / v->n.heads, head % v->n.heads, block * TILE);
    w->way->block(&w->forward, tile, scratch_of(w, thread));
}

static void run_head(void *context, int64_t head, int thread) {
    const walk *w = context;
    const attention_view *v = &w->forward.view;
    attention_forward own = w->forward;
    float *scratch = scratch_of(w, thread);
    attention_tile tile = attention_tile_queries(v, head / v->n.heads, head % v->n.heads, 0);
    attention_head queries = { .view = v, .b = tile.b, .h = tile.h, .length = v->n.queries };
    attention_head keys = { .view = v, .b = tile.b, .h = tile.g, .length = v->n.keys };
    queries.next = scratch + w->way->floats(v);
    keys.next = queries.next + attention_head_floats(v, v->n.queries, 2);
    own.y = attention_head_take(&queries, &w->forward.y, false);
    own.view.q = attention_head_take(&queries, &v->q, true);
    own.view.k = attention_head_take(&keys, &v->k, true);
    own.view.v = attention_head_take(&keys, &v->v, true);
    for (int64_t block = 0; block < blocks_of(v); block++)
        w->way->block(&own, attention_tile_queries(v, tile.b, tile.h, block * TILE), scratch);
    attention_head_give(&queries, 0);
}

uint64_t attention_forward_scratch(const op_call *c, const attention_forward_way *way, int threads) {
    attention_view v = attention_view_of(c, 3);
    return (uint64_t)threads * each_thread(&v, way) * sizeof(float);
}

void attention_forward_run(const op_call *c, const attention_forward_way *way) {
    walk w = { .forward = { .view = attention_view_of(c, 3), .kept = c->out[1].data },
               .way = way,
               .scratch = c->scratch };
    const attention_sizes *n = &w.forward.view.n;
    w.forward.y = attention_view_rows(&w.forward.view, &c->out[0]);
    if (attention_head_is_narrow(&w.forward.view))
        threads_for(n->batch * n->heads, run_head, &w);
    else
        threads_for(blocks_of(&w.forward.view) * n->batch * n->heads, run_block, &w);
}
