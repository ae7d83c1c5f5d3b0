#include "ops/attention/attention_gradient.h"

#include <string.h>

#include "base/half.h"
#include "base/threads.h"
#include "ops/attention/attention_dropout.h"
#include "ops/attention/attention_head.h"
#include "ops/attention/attention_product.h"
#include "ops/vector_math.h"

enum { TILE = ATTENTION_TILE };

/* What one thread works in. */
typedef struct {
    float *scaled;              /* (D,64) the queries, scaled */
    float *slopes_y;            /* (D,64) dy */
    float *queries, *dy, *keys; /* (64,D) */
    float *weights;             /* (64,64) probabilities, then what multiplied the values */
    float *slopes;              /* (64,64) gradient of the probabilities, then of the scores */
    float *keep;                /* (64,64) dropout */
    float *bends;               /* (64,64) slopes of the scores' cap */
    float *common;              /* (64) sum over the keys of probability times slope */
    float *bias;                /* (64,64) gradient of a bias of scores */
    uint32_t *words;
} buffers;

static uint64_t carve(const attention_view *v, float *base, buffers *w) {
    uint64_t used = 0;
    int64_t block = TILE * v->n.size, tile = TILE * TILE;
    bool drops = v->dropout > 0;
    w->scaled = attention_tile_take(base, &used, block);
    w->slopes_y = attention_tile_take(base, &used, block);
    w->queries = attention_tile_take(base, &used, block);
    w->dy = attention_tile_take(base, &used, block);
    w->keys = attention_tile_take(base, &used, block);
    w->weights = attention_tile_take(base, &used, tile);
    w->slopes = attention_tile_take(base, &used, tile);
    w->common = attention_tile_take(base, &used, TILE);
    w->keep = attention_tile_take(base, &used, drops ? tile : 0);
    w->bends = attention_tile_take(base, &used, v->cap > 0 ? tile : 0);
    w->bias = attention_tile_take(base, &used, v->bias ? tile : 0);
    w->words = (uint32_t *)attention_tile_take(base, &used, drops ? ATTENTION_DROPOUT_WORDS : 0);
    return used;
}

/* Numbers of scratch for a thread: the buffers and, where operands are narrow, a head: q, dq, dy and y; k, v,
 * dk and dv. */
static uint64_t each_thread(const attention_view *v) {
    buffers w;
    uint64_t used = carve(v, NULL, &w);
    if (!attention_head_is_narrow(v)) return used;
    return used + attention_head_floats(v, v->n.queries, 4) + attention_head_floats(v, v->n.keys, 4);
}

uint64_t attention_gradient_scratch(const attention_view *v, bool probs, int threads) {
    uint64_t rows = probs ? (uint64_t)(v->n.batch * v->n.heads * v->n.queries) : 0;
    return ((uint64_t)threads * each_thread(v) + rows) * sizeof(float);
}

/* ---- one tile ---- */

VECTOR_CLONES static void exponentials(int queries, const float *lse, float *scores) {
    for (int t = 0; t < queries; t++) scores[t] = vector_exp(scores[t] - lse[t]);
}

/* The tile's first query in a (B,H,T) array. */
static int64_t row_of(const attention_gradient *a, const attention_tile *tile) {
    return (tile->b * a->view.n.heads + tile->h) * a->view.n.queries + tile->t;
}

static void load_weights(const attention_gradient *a, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &a->view;
    if (!a->probs) {
        attention_tile_scores(v, tile, w->scaled, w->weights);
        if (v->cap > 0) memcpy(w->bends, w->weights, (size_t)tile->keys * TILE * sizeof *w->bends);
        for (int s = 0; s < tile->keys; s++)
            exponentials(tile->queries, a->lse + row_of(a, tile), w->weights + s * TILE);
        return;
    }
    attention_tile_transpose(
        &(attention_transposition){ .in = a->probs + row_of(a, tile) * v->n.keys + tile->s,
                                    .in_stride = v->n.keys,
                                    .out = w->weights,
                                    .out_stride = TILE,
                                    .rows = tile->queries,
                                    .columns = tile->keys });
    attention_tile_hide(v, tile, w->weights, 0);
    if (v->cap > 0) attention_tile_scores(v, tile, w->scaled, w->bends);
}

/* Probabilities before dropout, and the gradient that reaches them. */
static void load_slopes(const attention_gradient *a, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &a->view;
    load_weights(a, tile, w);
    attention_multiply(&(attention_product){ .m = tile->keys,
                                             .n = tile->queries,
                                             .k = v->n.size,
                                             .a = attention_tile_at_keys(v, tile, &v->v),
                                             .a_row = v->v.stride,
                                             .a_column = 1,
                                             .b = w->slopes_y,
                                             .b_row = TILE,
                                             .c = w->slopes,
                                             .c_row = TILE });
    if (!(v->dropout > 0)) return;
    attention_dropout(v, tile, w->words, w->keep);
    attention_tile_scale(tile, w->slopes, w->keep);
}

VECTOR_CLONES static void add_products(int n, float *sum, const float *x, const float *y) {
    for (int i = 0; i < n; i++) sum[i] += x[i] * y[i];
}

VECTOR_CLONES static void slopes_of_scores(int n, const float *weights, const float *common, float scale,
                                           float *slopes) {
    for (int i = 0; i < n; i++) slopes[i] = weights[i] * (slopes[i] - common[i]) * scale;
}

/* Adds x (keys, queries) times `rows` (queries, D) to the keys' rows of `to`. */
static void add_to_keys(const attention_view *v, const attention_tile *tile, const float *x,
                        const float *rows, const attention_place *to) {
    attention_multiply(&(attention_product){ .m = tile->keys,
                                             .n = v->n.size,
                                             .k = tile->queries,
                                             .a = x,
                                             .a_row = TILE,
                                             .a_column = 1,
                                             .b = rows,
                                             .b_row = v->n.size,
                                             .c = attention_tile_at_keys(v, tile, to),
                                             .c_row = to->stride,
                                             .accumulate = true });
}

static void add_to_queries(const attention_gradient *a, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &a->view;
    attention_tile_pack(attention_tile_at_keys(v, tile, &v->k), v->k.stride, tile->keys, v->n.size, w->keys);
    attention_multiply(&(attention_product){ .m = tile->queries,
                                             .n = v->n.size,
                                             .k = tile->keys,
                                             .a = w->slopes,
                                             .a_row = 1,
                                             .a_column = TILE,
                                             .b = w->keys,
                                             .b_row = v->n.size,
                                             .c = attention_tile_at_queries(v, tile, &a->out.q),
                                             .c_row = a->out.q.stride,
                                             .accumulate = true });
}

typedef enum { TO_QUERIES = 1, TO_KEYS = 2 } direction;

static void add_tile(const attention_gradient *a, const attention_tile *tile, unsigned to, const buffers *w) {
    const attention_view *v = &a->view;
    load_slopes(a, tile, w);
    for (int s = 0; s < tile->keys; s++)
        slopes_of_scores(tile->queries, w->weights + s * TILE, w->common, (float)v->scale,
                         w->slopes + s * TILE);
    if (v->cap > 0) {
        attention_tile_cap_slopes(v, tile, w->bends);
        attention_tile_scale(tile, w->slopes, w->bends);
    }
    if (to & TO_QUERIES) add_to_queries(a, tile, w);
    if (!(to & TO_KEYS)) return;
    if (v->dropout > 0) attention_tile_scale(tile, w->weights, w->keep);
    add_to_keys(v, tile, w->weights, w->dy, &a->out.v);
    add_to_keys(v, tile, w->slopes, w->queries, &a->out.k);
}

/* ---- a block of queries ---- */

/* Sixteen partial sums, then a tree: one order on every machine. */
VECTOR_CLONES static float inner(const float *x, const float *y, int64_t n) {
    float lanes[16] = { 0 };
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) lanes[l] += x[i + l] * y[i + l];
    for (int l = 0; i + l < n; l++) lanes[l] += x[i + l] * y[i + l];
    for (int width = 8; width; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0];
}

static void common_from_y(const attention_gradient *a, const attention_tile *tile, const buffers *w) {
    const float *y = attention_tile_at_queries(&a->view, tile, &a->y);
    int64_t size = a->view.n.size;
    for (int t = 0; t < tile->queries; t++) w->common[t] = inner(y + t * a->y.stride, w->dy + t * size, size);
}

static void common_from_probs(const attention_gradient *a, attention_tile tile, const buffers *w) {
    const attention_view *v = &a->view;
    memset(w->common, 0, TILE * sizeof *w->common);
    for (int64_t from = 0; attention_tile_next(v, &tile, from); from = tile.s + TILE) {
        load_slopes(a, &tile, w);
        for (int s = 0; s < tile.keys; s++)
            add_products(tile.queries, w->common, w->weights + s * TILE, w->slopes + s * TILE);
    }
}

/* Whoever makes dq comes first and leaves the sums that it took from the probabilities to whoever makes dk
 * and dv. */
static void load_common(const attention_gradient *a, const attention_tile *tile, unsigned into,
                        const buffers *w) {
    if (!a->probs) {
        common_from_y(a, tile, w);
        return;
    }
    float *kept = a->common + row_of(a, tile);
    size_t bytes = (size_t)tile->queries * sizeof *kept;
    if (into & TO_QUERIES) {
        common_from_probs(a, *tile, w);
        memcpy(kept, w->common, bytes);
    } else
        memcpy(w->common, kept, bytes);
}

static void load_queries(const attention_gradient *a, const attention_tile *tile, const buffers *w) {
    const attention_view *v = &a->view;
    const float *dy = attention_tile_at_queries(v, tile, &a->dy);
    if (!a->probs || v->cap > 0) attention_tile_scaled_queries(v, tile, w->scaled);
    attention_tile_pack(attention_tile_at_queries(v, tile, &v->q), v->q.stride, tile->queries, v->n.size,
                        w->queries);
    attention_tile_pack(dy, a->dy.stride, tile->queries, v->n.size, w->dy);
    attention_tile_transpose(&(attention_transposition){ .in = dy,
                                                         .in_stride = a->dy.stride,
                                                         .out = w->slopes_y,
                                                         .out_stride = TILE,
                                                         .rows = tile->queries,
                                                         .columns = v->n.size });
}

static void clear_rows(float *rows, int64_t stride, int64_t count, int64_t columns) {
    for (int64_t r = 0; r < count; r++) memset(rows + r * stride, 0, (size_t)columns * sizeof *rows);
}

/* Tiles of keys [from, to) against a block of queries. */
static void add_block(const attention_gradient *a, attention_tile tile, int64_t from, int64_t to,
                      unsigned into, const buffers *w) {
    const attention_view *v = &a->view;
    if (into & TO_QUERIES)
        clear_rows(attention_tile_at_queries(v, &tile, &a->out.q), a->out.q.stride, tile.queries, v->n.size);
    if (!attention_tile_next(v, &tile, from) || tile.s >= to) return;
    load_queries(a, &tile, w);
    load_common(a, &tile, into, w);
    for (; attention_tile_next(v, &tile, from) && tile.s < to; from = tile.s + TILE)
        add_tile(a, &tile, into, w);
}

/* ---- the two ways to cut the work ---- */

static buffers buffers_of(const attention_gradient *a, int thread) {
    buffers w;
    carve(&a->view, (float *)a->scratch + each_thread(&a->view) * (uint64_t)thread, &w);
    return w;
}

/* Rows [s, s + count) of dk and dv of one head: all that its queries add, `into` them and perhaps into dq. */
static void own_keys(const attention_gradient *a, attention_tile at, int64_t count, unsigned into,
                     const buffers *w) {
    const attention_view *v = &a->view;
    int64_t group = v->n.heads / v->n.kv_heads;
    clear_rows(attention_tile_at_keys(v, &at, &a->out.k), a->out.k.stride, count, v->n.size);
    clear_rows(attention_tile_at_keys(v, &at, &a->out.v), a->out.v.stride, count, v->n.size);
    for (int64_t h = at.g * group; h < (at.g + 1) * group; h++)
        for (int64_t t = 0; t < v->n.queries; t += TILE)
            add_block(a, attention_tile_queries(v, at.b, h, t), at.s, at.s + count, into, w);
}

static void whole_head(void *context, int64_t index, int thread) {
    const attention_gradient *a = context;
    buffers w = buffers_of(a, thread);
    attention_tile at = { .b = index / a->view.n.kv_heads, .g = index % a->view.n.kv_heads };
    own_keys(a, at, a->view.n.keys, TO_QUERIES | TO_KEYS, &w);
}

/* The same for a head of keys whose operands are narrow: k, v and what becomes of them are wide as long as
 * any head of queries reads them. */
static void whole_narrow_head(void *context, int64_t index, int thread) {
    const attention_gradient *a = context;
    const attention_view *v = &a->view;
    attention_gradient own = *a;
    buffers w = buffers_of(a, thread);
    int64_t b = index / v->n.kv_heads, g = index % v->n.kv_heads, group = v->n.heads / v->n.kv_heads;
    float *area = (float *)a->scratch + each_thread(v) * (uint64_t)(thread + 1) -
                  attention_head_floats(v, v->n.queries, 4) - attention_head_floats(v, v->n.keys, 4);
    attention_head keys = { .view = v, .b = b, .h = g, .length = v->n.keys, .next = area };
    own.out.k = attention_head_take(&keys, &a->out.k, false);
    own.out.v = attention_head_take(&keys, &a->out.v, false);
    own.view.k = attention_head_take(&keys, &v->k, true);
    own.view.v = attention_head_take(&keys, &v->v, true);
    attention_tile at = { .b = b, .g = g };
    clear_rows(attention_tile_at_keys(v, &at, &own.out.k), own.out.k.stride, v->n.keys, v->n.size);
    clear_rows(attention_tile_at_keys(v, &at, &own.out.v), own.out.v.stride, v->n.keys, v->n.size);
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        attention_head queries = { .view = v, .b = b, .h = h, .length = v->n.queries, .next = keys.next };
        own.out.q = attention_head_take(&queries, &a->out.q, false);
        own.view.q = attention_head_take(&queries, &v->q, true);
        own.dy = attention_head_take(&queries, &a->dy, true);
        if (!a->probs) own.y = attention_head_take(&queries, &a->y, true);
        for (int64_t t = 0; t < v->n.queries; t += TILE)
            add_block(&own, attention_tile_queries(v, b, h, t), 0, v->n.keys, TO_QUERIES | TO_KEYS, &w);
        attention_head_give(&queries, 0);
    }
    attention_head_give(&keys, 0);
    attention_head_give(&keys, 1);
}

static int64_t tiles_of(int64_t length) { return (length + TILE - 1) / TILE; }

static void block_of_queries(void *context, int64_t index, int thread) {
    const attention_gradient *a = context;
    const attention_sizes *n = &a->view.n;
    buffers w = buffers_of(a, thread);
    int64_t blocks = tiles_of(n->queries), block = blocks - 1 - index % blocks, h = index / blocks;
    attention_tile tile = attention_tile_queries(&a->view, h / n->heads, h % n->heads, block * TILE);
    add_block(a, tile, 0, n->keys, TO_QUERIES, &w);
}

static void block_of_keys(void *context, int64_t index, int thread) {
    const attention_gradient *a = context;
    const attention_sizes *n = &a->view.n;
    buffers w = buffers_of(a, thread);
    int64_t blocks = tiles_of(n->keys), block = index % blocks, g = index / blocks;
    attention_tile at = { .b = g / n->kv_heads, .g = g % n->kv_heads, .s = block * TILE };
    int64_t rest = n->keys - at.s;
    own_keys(a, at, rest < TILE ? rest : TILE, TO_KEYS, &w);
}

/* ---- a bias of scores ---- */

VECTOR_CLONES static void add_slopes(int n, const float *weights, const float *slopes, const float *common,
                                     float *sum) {
    for (int i = 0; i < n; i++) sum[i] += weights[i] * (slopes[i] - common[i]);
}

/* The share of one sample, whose tile has its keys. */
static void add_sample(const attention_gradient *a, attention_tile tile, const buffers *w) {
    int64_t s = tile.s;
    if (!attention_tile_next(&a->view, &tile, s) || tile.s != s) return; /* seen by none of them */
    load_queries(a, &tile, w);
    load_common(a, &tile, TO_KEYS, w);
    load_slopes(a, &tile, w);
    for (int k = 0; k < tile.keys; k++)
        add_slopes(tile.queries, w->weights + k * TILE, w->slopes + k * TILE, w->common, w->bias + k * TILE);
}

/* The same where operands are narrow: the head's rows are widened for each tile. */
static void add_narrow_sample(const attention_gradient *a, attention_tile tile, float *area,
                              const buffers *w) {
    const attention_view *v = &a->view;
    attention_gradient own = *a;
    attention_head keys = { .view = v, .b = tile.b, .h = tile.g, .length = v->n.keys, .next = area };
    own.view.k = attention_head_take(&keys, &v->k, true);
    own.view.v = attention_head_take(&keys, &v->v, true);
    attention_head queries = {
        .view = v, .b = tile.b, .h = tile.h, .length = v->n.queries, .next = keys.next
    };
    own.view.q = attention_head_take(&queries, &v->q, true);
    own.dy = attention_head_take(&queries, &a->dy, true);
    if (!a->probs) own.y = attention_head_take(&queries, &a->y, true);
    add_sample(&own, tile, w);
}

static void put_bias(const attention_gradient *a, const attention_tile *tile, const float *sum) {
    const attention_view *v = &a->view;
    int64_t rest = v->n.keys - tile->s;
    int keys = (int)(rest < TILE ? rest : TILE);
    for (int t = 0; t < tile->queries; t++) {
        int64_t first = (tile->h * v->n.queries + tile->t + t) * v->n.keys + tile->s;
        float row[TILE];
        for (int s = 0; s < keys; s++) row[s] = sum[s * TILE + t];
        if (dtype_is_half(a->out.bias->dtype))
            half_narrow(a->out.bias->dtype, row, keys, (uint16_t *)a->out.bias->data + first);
        else
            memcpy((float *)a->out.bias->data + first, row, (size_t)keys * sizeof *row);
    }
}

static void tile_of_bias(void *context, int64_t index, int thread) {
    const attention_gradient *a = context;
    const attention_view *v = &a->view;
    int64_t across = tiles_of(v->n.keys), down = tiles_of(v->n.queries), block = index / across % down;
    attention_tile tile = attention_tile_queries(v, 0, index / across / down, block * TILE);
    buffers w = buffers_of(a, thread);
    float *area = (float *)a->scratch + each_thread(v) * (uint64_t)thread + carve(v, NULL, &(buffers){ 0 });
    tile.s = index % across * TILE;
    memset(w.bias, 0, TILE * TILE * sizeof *w.bias);
    for (tile.b = 0; tile.b < v->n.batch; tile.b++)
        if (attention_head_is_narrow(v))
            add_narrow_sample(a, tile, area, &w);
        else
            add_sample(a, tile, &w);
    put_bias(a, &tile, w.bias);
}

/* Seven products against five, so heads are split where that would leave more than two of seven threads idle.
 */
static bool too_few(int64_t owners, int64_t threads) {
    int64_t rounds = (owners + threads - 1) / threads;
    return rounds * threads * 5 > owners * 7;
}

void attention_gradient_run(const attention_gradient *given) {
    attention_gradient with = *given, *a = &with;
    const attention_sizes *n = &a->view.n;
    a->common = (float *)a->scratch + each_thread(&a->view) * (uint64_t)threads_count();
    int64_t owners = n->batch * n->kv_heads;
    if (attention_head_is_narrow(&a->view))
        threads_for(owners, whole_narrow_head, a);
    else if (!too_few(owners, threads_count()))
        threads_for(owners, whole_head, a);
    else {
        threads_for(n->batch * n->heads * tiles_of(n->queries), block_of_queries, a);
        threads_for(owners * tiles_of(n->keys), block_of_keys, a);
    }
    if (a->out.bias) threads_for(n->heads * tiles_of(n->queries) * tiles_of(n->keys), tile_of_bias, a);
}
