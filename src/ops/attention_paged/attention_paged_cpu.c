#include <math.h>

#include "ops/attention_paged/attention_paged_math.h"
#include "ops/fast.h"
#include "ops/reference.h"

enum { Q, KEYS, VALUES, TABLE, TEXT, POSITION, KEY_SCALES, VALUE_SCALES };

static paged_sight sight_of(const op_call *c) {
    const attention_paged_attributes *a = c->attributes;
    const op_arg *table = op_in(c, TABLE);
    return (paged_sight){ .table = table->data,
                          .text = op_in(c, TEXT)->data,
                          .position = op_in(c, POSITION)->data,
                          .texts = table->shape.dim[0],
                          .columns = table->shape.dim[1],
                          .blocks = op_in(c, KEYS)->shape.dim[0],
                          .window = a->window };
}

static double scale_of(const attention_paged_attributes *a) {
    return a->scale > 0 ? (double)a->scale : 1 / sqrt(a->size);
}

/* ---- reference: a query at a time, in double ---- */

typedef struct {
    const op_call *c;
    const attention_paged_attributes *a;
    paged_sight sight;
    int64_t row, h, g;
} plain_query;

/* Number d of the key or value at position p, with its scale. */
static double plain_cached(const plain_query *x, uint32_t which, int64_t p, int64_t d) {
    const op_arg *scales = op_in(x->c, which == KEYS ? KEY_SCALES : VALUE_SCALES);
    int64_t block = paged_block(&x->sight, x->row, p / CACHE_BLOCK * CACHE_BLOCK), at = p % CACHE_BLOCK;
    cache_write_attributes lie = { .heads = x->a->kv_heads, .size = x->a->size, .keys = which == KEYS };
    double number = reference_get(op_in(x->c, which), cache_place(&lie, block, x->g, at, d));
    return scales->data ? number * reference_get(scales, cache_scale_place(x->a->kv_heads, block, x->g, at))
                        : number;
}

static double plain_score(const plain_query *x, int64_t p) {
    const op_arg *q = op_in(x->c, Q);
    double sum = 0, cap = (double)x->a->cap;
    for (int64_t d = 0; d < x->a->size; d++)
        sum += reference_get(q, x->row * shape_last(&q->shape) + x->h * x->a->size + d) *
               plain_cached(x, KEYS, p, d);
    sum *= scale_of(x->a);
    return cap > 0 ? cap * tanh(sum / cap) : sum;
}

static void plain_attend(const plain_query *x) {
    paged_span seen = paged_seen(&x->sight, x->row);
    int64_t to = (x->row * x->a->heads + x->h) * x->a->size;
    double top = -INFINITY, total = 0;
    for (int64_t p = seen.first; p <= seen.last; p++) top = fmax(top, plain_score(x, p));
    for (int64_t p = seen.first; p <= seen.last; p++) total += exp(plain_score(x, p) - top);
    for (int64_t d = 0; d < x->a->size; d++) {
        double sum = 0;
        for (int64_t p = seen.first; p <= seen.last; p++)
            sum += exp(plain_score(x, p) - top) / total * plain_cached(x, VALUES, p, d);
        reference_set(&x->c->out[0], to + d, sum);
    }
}

static void attention_paged_reference(const op_call *c) {
    plain_query x = { .c = c, .a = c->attributes, .sight = sight_of(c) };
    for (x.row = 0; x.row < op_in(c, TEXT)->shape.dim[0]; x.row++)
        for (x.h = 0; x.h < x.a->heads; x.h++) {
            x.g = x.h / (x.a->heads / x.a->kv_heads);
            plain_attend(&x);
        }
}

/* ---- queries of one text and one head of keys, some at a time ---- */

enum { SOME = 4, TILE = 4 /* rows */ };

typedef struct {
    int64_t row, head;
    paged_span seen;
    float *q, *scores, *y; /* scaled; by position from the batch's base on; the result */
} paged_query;

typedef struct {
    const void *keys, *values;
    const float *key_scales, *value_scales;
    cache_write_attributes keys_lie, values_lie;
    int64_t size, head; /* of keys */
    int64_t base;
    paged_query query[SOME];
    int count;
} paged_batch;

VECTOR_INLINE float paged_number(dtype type, const void *from, int64_t i) {
    if (type == DTYPE_F32) return ((const float *)from)[i];
    if (type == DTYPE_BF16) return half_from_bf16(((const uint16_t *)from)[i]);
    if (type == DTYPE_F16) return half_from_f16(((const uint16_t *)from)[i]);
    return (float)((const int8_t *)from)[i];
}

VECTOR_INLINE void paged_load(dtype type, const void *from, int64_t first, float to[CACHE_BLOCK]) {
    for (int j = 0; j < CACHE_BLOCK; j++) to[j] = paged_number(type, from, first + j);
}

#define PAGED_NAME(of) f32_one_##of
#define PAGED_TYPE DTYPE_F32
#define PAGED_QUERIES 1
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) f32_some_##of
#define PAGED_TYPE DTYPE_F32
#define PAGED_QUERIES SOME
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) bf16_one_##of
#define PAGED_TYPE DTYPE_BF16
#define PAGED_QUERIES 1
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) bf16_some_##of
#define PAGED_TYPE DTYPE_BF16
#define PAGED_QUERIES SOME
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) f16_one_##of
#define PAGED_TYPE DTYPE_F16
#define PAGED_QUERIES 1
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) f16_some_##of
#define PAGED_TYPE DTYPE_F16
#define PAGED_QUERIES SOME
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) i8_one_##of
#define PAGED_TYPE DTYPE_I8
#define PAGED_QUERIES 1
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) i8_some_##of
#define PAGED_TYPE DTYPE_I8
#define PAGED_QUERIES SOME
#include "ops/attention_paged/attention_paged_kernel.h"

typedef struct {
    void (*scores)(const paged_batch *b, int64_t block, int64_t at);
    void (*values)(const paged_batch *b, int64_t block, int64_t at, int first, int last);
} paged_loops;

/* By type, and for one query or some. */
static paged_loops loops_of(dtype type, bool some) {
    static const paged_loops all[][2] = {
        { { f32_one_scores, f32_one_values }, { f32_some_scores, f32_some_values } },
        { { bf16_one_scores, bf16_one_values }, { bf16_some_scores, bf16_some_values } },
        { { f16_one_scores, f16_one_values }, { f16_some_scores, f16_some_values } },
        { { i8_one_scores, i8_one_values }, { i8_some_scores, i8_some_values } }
    };
    int which = type == DTYPE_F32 ? 0 : type == DTYPE_BF16 ? 1 : type == DTYPE_F16 ? 2 : 3;
    return all[which][some];
}

typedef struct {
    const op_call *c;
    const attention_paged_attributes *a;
    paged_sight sight;
    int64_t rows, width, room; /* of q; scores of a query */
    float scale;
} paged_walk;

static int64_t room_of(int64_t columns) { return columns * CACHE_BLOCK + VECTOR_LANES; }

static paged_walk walk_of(const op_call *c) {
    const attention_paged_attributes *a = c->attributes;
    paged_walk w = { .c = c, .a = a, .sight = sight_of(c), .scale = (float)scale_of(a) };
    w.rows = op_in(c, TEXT)->shape.dim[0], w.width = shape_last(&op_in(c, Q)->shape);
    w.room = room_of(w.sight.columns);
    return w;
}

/* Floats that a thread works in: of each query what it asks for, its scores and its result. */
static int64_t floats_of(const attention_paged_attributes *a, int64_t room) {
    return SOME * (2 * (int64_t)a->size + room);
}

static uint64_t paged_scratch(const op_call *c, int threads) {
    return (uint64_t)threads * (uint64_t)floats_of(c->attributes, room_of(op_in(c, TABLE)->shape.dim[1])) *
           sizeof(float);
}

static void read_query(const paged_walk *w, const paged_query *x) {
    const float *from =
        fast_floats(op_in(w->c, Q), x->row * w->width + x->head * w->a->size, w->a->size, x->q);
    for (int64_t d = 0; d < w->a->size; d++) x->q[d] = from[d] * w->scale, x->y[d] = 0;
}

/* Scores become probabilities, less the division by their sum, which is returned. */
VECTOR_CLONES static float weigh(float *scores, int64_t before, int64_t n, float cap) {
    float lane[VECTOR_LANES], top = -INFINITY;
    for (int64_t i = 0; i < before; i++) scores[i] = -INFINITY;
    if (cap > 0)
        for (int64_t i = before; i < n; i++) scores[i] = paged_capped(scores[i], cap);
    for (int64_t i = before; i < n; i++) top = scores[i] > top ? scores[i] : top;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) scores[i] = vector_exp(scores[i] - top);
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, (void)0, lane[j] += scores[i + j];);
    return vector_lanes_sum(lane);
}

static bool sees_whole(const paged_batch *b, int64_t at) {
    bool whole = true;
    for (int r = 0; r < b->count; r++)
        whole &= b->query[r].seen.first <= at && b->query[r].seen.last >= at + CACHE_BLOCK - 1;
    return whole;
}

/* The part of a block that query r sees. */
static void add_values(const paged_batch *b, int r, paged_loops one, int64_t block, int64_t at) {
    paged_span seen = b->query[r].seen;
    int64_t first = seen.first > at ? seen.first - at : 0, last = seen.last - at + 1;
    paged_batch alone = *b;
    alone.query[0] = b->query[r], alone.count = 1;
    if (last > CACHE_BLOCK) last = CACHE_BLOCK;
    if (first < last) one.values(&alone, block, at, (int)first, (int)last);
}

/* From the first block that any of them sees to the last. */
static void attend(const paged_walk *w, paged_batch *b) {
    dtype type = op_in(w->c, KEYS)->dtype;
    paged_loops one = loops_of(type, false), all = loops_of(type, b->count == SOME);
    int64_t from = b->query[0].seen.first, to = 0, row = b->query[0].row;
    for (int r = 0; r < b->count; r++) {
        if (b->query[r].seen.first < from) from = b->query[r].seen.first;
        if (b->query[r].seen.last > to) to = b->query[r].seen.last;
        read_query(w, &b->query[r]);
    }
    b->base = paged_base(from), from = from / CACHE_BLOCK * CACHE_BLOCK;
    for (int64_t at = from; at <= to; at += CACHE_BLOCK) all.scores(b, paged_block(&w->sight, row, at), at);
    float factor[SOME];
    for (int r = 0; r < b->count; r++) {
        const paged_query *x = &b->query[r];
        factor[r] = 1.0f / weigh(x->scores, x->seen.first - b->base, x->seen.last - b->base + 1, w->a->cap);
    }
    for (int64_t at = from; at <= to; at += CACHE_BLOCK) {
        int64_t block = paged_block(&w->sight, row, at);
        if (sees_whole(b, at))
            all.values(b, block, at, 0, CACHE_BLOCK);
        else
            for (int r = 0; r < b->count; r++) add_values(b, r, one, block, at);
    }
    for (int r = 0; r < b->count; r++) {
        const paged_query *x = &b->query[r];
        for (int64_t d = 0; d < w->a->size; d++) x->y[d] *= factor[r];
        fast_floats_store(&w->c->out[0], (x->row * w->a->heads + x->head) * w->a->size, w->a->size, x->y);
    }
}

/* SOME queries go together; fewer one by one, with the same bits. */
static void attend_all(const paged_walk *w, paged_batch *b) {
    paged_batch alone = *b;
    if (b->count == SOME) {
        attend(w, b);
    } else {
        alone.count = 1;
        for (int r = 0; r < b->count; r++) {
            alone.query[0] = b->query[r];
            attend(w, &alone);
        }
    }
    b->count = 0;
}

static void add_query(const paged_walk *w, paged_batch *b, int64_t row, int64_t head) {
    if (b->count && w->sight.text[b->query[0].row] != w->sight.text[row]) attend_all(w, b);
    paged_query *x = &b->query[b->count++];
    x->row = row, x->head = head, x->seen = paged_seen(&w->sight, row);
    if (b->count == SOME) attend_all(w, b);
}

static void clear(const paged_walk *w, int64_t row, int64_t head) {
    const op_arg *y = &w->c->out[0];
    size_t bytes = (size_t)w->a->size * dtype_bytes(y->dtype);
    memset((char *)y->data + (size_t)(row * w->a->heads + head) * bytes, 0, bytes);
}

/* A head of keys and TILE rows. */
static void attend_tile(void *context, int64_t tile, int thread) {
    const paged_walk *w = context;
    const op_call *c = w->c;
    int64_t each = w->a->heads / w->a->kv_heads, first = tile / w->a->kv_heads * TILE, size = w->a->size;
    float *room = (float *)c->scratch + thread * floats_of(w->a, w->room);
    paged_batch b = { .keys = op_in(c, KEYS)->data,
                      .values = op_in(c, VALUES)->data,
                      .key_scales = op_in(c, KEY_SCALES)->data,
                      .value_scales = op_in(c, VALUE_SCALES)->data,
                      .keys_lie = { .heads = w->a->kv_heads, .size = w->a->size, .keys = 1 },
                      .values_lie = { .heads = w->a->kv_heads, .size = w->a->size },
                      .size = size,
                      .head = tile % w->a->kv_heads };
    for (int r = 0; r < SOME; r++) {
        b.query[r].q = room + r * size, b.query[r].y = room + (SOME + r) * size;
        b.query[r].scores = room + 2 * SOME * size + r * w->room;
    }
    for (int64_t row = first; row < first + TILE && row < w->rows; row++)
        for (int64_t h = b.head * each; h < (b.head + 1) * each; h++)
            if (paged_seen(&w->sight, row).last >= 0)
                add_query(w, &b, row, h);
            else
                clear(w, row, h);
    attend_all(w, &b);
}

static void attention_paged_blocks(const op_call *c) {
    paged_walk w = walk_of(c);
    threads_for((w.rows + TILE - 1) / TILE * w.a->kv_heads, attend_tile, &w);
}

const op_kernel attention_paged_cpu[] = {
    { "attention_paged_cpu_blocks", fast_accepts_halves, paged_scratch, attention_paged_blocks },
    { "attention_paged_reference", NULL, NULL, attention_paged_reference },
    { 0 }
};
