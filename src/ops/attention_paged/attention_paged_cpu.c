#include <math.h>

#include "ops/attention/attention_product.h"
#include "ops/attention_paged/attention_paged_math.h"
#include "ops/fast.h"
#include "ops/reference.h"

enum { Q, KEYS, VALUES, TABLE, TEXT, POSITION, KEY_SCALES, VALUE_SCALES, BIAS, PLACE };

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

static double plain_bias(const plain_query *x, int64_t p) {
    const op_arg *bias = op_in(x->c, BIAS);
    const int32_t *place = op_in(x->c, PLACE)->data;
    if (!bias->data) return 0;
    int64_t distances = shape_last(&bias->shape);
    return reference_get(bias, x->h * distances + paged_distance(p, place[x->row], x->a->here, distances));
}

static double plain_score(const plain_query *x, int64_t p) {
    const op_arg *q = op_in(x->c, Q);
    double sum = 0, cap = (double)x->a->cap;
    for (int64_t d = 0; d < x->a->size; d++)
        sum += reference_get(q, x->row * shape_last(&q->shape) + x->h * x->a->size + d) *
               plain_cached(x, KEYS, p, d);
    sum = sum * scale_of(x->a) + plain_bias(x, p);
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

/* ---- queries of one text and one head of keys, TOGETHER at a time ----
 * A tile has some rows and a head of keys. Of each segment that its queries see blocks are read once: keys
 * for the scores of all, values for the sums of all. Where there are too few tiles for all threads, each
 * segment is a task of its own, and what comes of it waits in the scratch to be joined: the same numbers, in
 * the same order. */

enum { TOGETHER = 32, GROUP = 8, PAGED_BLOCKS = 4, ROOM = PAGED_SEGMENT + 16, TASKS = 4 /* of a thread */ };

typedef struct {
    int64_t row, head;
    paged_span seen;
    float top, total;
    float *q, *scores, *y, *part; /* scaled; of a segment; the sum of values so far, and of a segment */
} paged_query;

typedef struct {
    const void *keys, *values;
    const float *key_scales, *value_scales;
    cache_write_attributes keys_lie, values_lie;
    int64_t size, head; /* of keys */
    dtype type;
    float *wide;    /* room for a block in f32, */
    float *weights; /* and for a group's weights of a block */
    paged_query query[TOGETHER];
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

#define PAGED_NAME(of) f32_##of
#define PAGED_TYPE DTYPE_F32
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) bf16_##of
#define PAGED_TYPE DTYPE_BF16
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) f16_##of
#define PAGED_TYPE DTYPE_F16
#include "ops/attention_paged/attention_paged_kernel.h"
#define PAGED_NAME(of) i8_##of
#define PAGED_TYPE DTYPE_I8
#include "ops/attention_paged/attention_paged_kernel.h"

typedef struct {
    void (*scores)(const paged_batch *b, const int64_t block[PAGED_BLOCKS], const float *q, float *scores);
    void (*values)(const paged_batch *b, int64_t block, const float *weights, int first, int last, float *y);
} paged_loops;

static paged_loops loops_of(dtype type) {
    if (type == DTYPE_F32) return (paged_loops){ f32_scores, f32_values };
    if (type == DTYPE_BF16) return (paged_loops){ bf16_scores, bf16_values };
    if (type == DTYPE_F16) return (paged_loops){ f16_scores, f16_values };
    return (paged_loops){ i8_scores, i8_values };
}

typedef struct {
    const op_call *c;
    const attention_paged_attributes *a;
    paged_sight sight;
    int64_t rows, width, each; /* width: of q; each: heads that share one of keys */
    int64_t tile;              /* rows of one */
    int64_t segments;          /* that rows see, where each is a task of its own */
    float *joints;             /* what comes of those, of query and segment; NULL: there are tiles enough */
    float scale;
} paged_walk;

/* ---- scratch ---- */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Floats that a thread works in. */
static int64_t floats_of(const op_call *c) {
    const attention_paged_attributes *a = c->attributes;
    int64_t together = smaller(TOGETHER, op_in(c, TEXT)->shape.dim[0] * (a->heads / a->kv_heads));
    return together * (3 * (int64_t)a->size + ROOM) + CACHE_BLOCK * (int64_t)a->size + GROUP * CACHE_BLOCK;
}

static bool is_split(const op_call *c, int threads) {
    const attention_paged_attributes *a = c->attributes;
    return threads > 1 && op_in(c, TEXT)->shape.dim[0] * a->kv_heads < (int64_t)TASKS * threads;
}

static int64_t segments_of(const op_call *c) {
    return divide_up(op_in(c, TABLE)->shape.dim[1] * CACHE_BLOCK, PAGED_SEGMENT);
}

/* A maximum, a sum and the sum of values, of query and segment. */
static int64_t joint_floats(const op_call *c) {
    const attention_paged_attributes *a = c->attributes;
    return op_in(c, TEXT)->shape.dim[0] * a->heads * segments_of(c) * (2 + (int64_t)a->size);
}

static uint64_t paged_scratch(const op_call *c, int threads) {
    int64_t floats = threads * floats_of(c) + (is_split(c, threads) ? joint_floats(c) : 0);
    return (uint64_t)floats * sizeof(float);
}

static paged_walk walk_of(const op_call *c) {
    const attention_paged_attributes *a = c->attributes;
    int threads = threads_count();
    paged_walk w = {
        .c = c, .a = a, .sight = sight_of(c), .scale = (float)scale_of(a), .each = a->heads / a->kv_heads
    };
    w.rows = op_in(c, TEXT)->shape.dim[0], w.width = shape_last(&op_in(c, Q)->shape);
    w.tile = w.rows * a->kv_heads / ((int64_t)TASKS * threads);
    w.tile = smaller(w.tile, TOGETHER / w.each);
    if (w.tile < 1) w.tile = 1;
    if (is_split(c, threads)) w.joints = (float *)c->scratch + threads * floats_of(c);
    return w;
}

/* ---- a segment ---- */

/* Scores become weights; of what query x sees of the segment. */
VECTOR_CLONES static void weigh(paged_query *x, int64_t before, int64_t n, float cap) {
    float lane[VECTOR_LANES], top = -INFINITY, *scores = x->scores;
    for (int64_t i = 0; i < before; i++) scores[i] = -INFINITY;
    if (cap > 0)
        for (int64_t i = before; i < n; i++) scores[i] = paged_capped(scores[i], cap);
    for (int64_t i = before; i < n; i++) top = scores[i] > top ? scores[i] : top;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) scores[i] = vector_exp(scores[i] - top);
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, (void)0, lane[j] += scores[i + j];);
    x->top = top, x->total = vector_lanes_sum(lane);
}

/* What the scores of a part of a segment get by their distance. */
static void add_bias(const paged_walk *w, const paged_query *x, paged_span part, int64_t base) {
    const op_arg *bias = op_in(w->c, BIAS);
    if (!bias->data) return;
    int64_t distances = shape_last(&bias->shape), here = w->a->here;
    int64_t place = ((const int32_t *)op_in(w->c, PLACE)->data)[x->row], zero = place - here;
    const float *of = (const float *)bias->data + x->head * distances;
    int64_t p = part.first, middle = smaller(part.last, zero - 1),
            end = smaller(part.last, zero + distances - 1);
    for (; p <= middle; p++) x->scores[p - base] += of[0];
    for (; p <= end; p++) x->scores[p - base] += of[p - zero];
    for (; p <= part.last; p++) x->scores[p - base] += of[distances - 1];
}

/* A block of keys or values in f32, where it lies or widened. */
VECTOR_CLONES static void widen_codes(const int8_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}

static const float *block_floats(const paged_batch *b, const void *cache, const cache_write_attributes *lie,
                                 int64_t block) {
    int64_t from = cache_place(lie, block, b->head, 0, 0), n = CACHE_BLOCK * b->size;
    if (b->type == DTYPE_F32) return (const float *)cache + from;
    if (b->type == DTYPE_I8)
        widen_codes((const int8_t *)cache + from, n, b->wide);
    else
        half_widen(b->type, (const uint16_t *)cache + from, n, b->wide);
    return b->wide;
}

static const float *scales_at(const paged_batch *b, const float *scales, int64_t block) {
    return scales ? scales + cache_scale_place(b->keys_lie.heads, block, b->head, 0) : NULL;
}

static void multiply_by(const float *scales, float *x) {
    for (int j = 0; j < CACHE_BLOCK; j++) x[j] *= scales[j];
}

/* Queries [first, last) of a batch, those of one group that see something of a block. */
static bool sees_any(const paged_batch *b, int first, int last, int64_t at) {
    bool any = false;
    for (int r = first; r < last; r++)
        any |= b->query[r].seen.first < at + CACHE_BLOCK && b->query[r].seen.last >= at;
    return any;
}

static bool see_whole(const paged_batch *b, int first, int last, int64_t at) {
    bool whole = true;
    for (int r = first; r < last; r++)
        whole &= b->query[r].seen.first <= at && b->query[r].seen.last >= at + CACHE_BLOCK - 1;
    return whole;
}

static void score_block(const paged_batch *b, int64_t block, int64_t at, int64_t base) {
    const float *keys = block_floats(b, b->keys, &b->keys_lie, block),
                *scales = scales_at(b, b->key_scales, block);
    for (int first = 0; first < b->count; first += GROUP) {
        int last = (int)smaller(first + GROUP, b->count);
        if (!sees_any(b, first, last, at)) continue;
        float *to = b->query[first].scores + (at - base);
        attention_multiply_fused(&(attention_product){ .m = last - first,
                                                       .n = CACHE_BLOCK,
                                                       .k = b->size,
                                                       .a = b->query[first].q,
                                                       .a_row = b->size,
                                                       .a_column = 1,
                                                       .b = keys,
                                                       .b_row = CACHE_BLOCK,
                                                       .c = to,
                                                       .c_row = ROOM });
        for (int r = 0; scales && r < last - first; r++) multiply_by(scales, to + r * ROOM);
    }
}

/* Queries [first, last) see places [from, to) of the block. */
static void add_values(const paged_batch *b, const float *values, const float *scales, const int queries[2],
                       const int64_t places[2], const float *weights) {
    int rows = queries[1] - queries[0];
    int64_t apart = ROOM;
    for (int r = 0; scales && r < rows; r++) {
        memcpy(b->weights + r * CACHE_BLOCK, weights + r * ROOM, CACHE_BLOCK * sizeof *weights);
        multiply_by(scales, b->weights + r * CACHE_BLOCK);
    }
    if (scales) weights = b->weights, apart = CACHE_BLOCK;
    attention_multiply_fused(&(attention_product){ .m = rows,
                                                   .n = b->size,
                                                   .k = places[1] - places[0],
                                                   .a = weights + places[0],
                                                   .a_row = apart,
                                                   .a_column = 1,
                                                   .b = values + places[0] * b->size,
                                                   .b_row = b->size,
                                                   .c = b->query[queries[0]].part,
                                                   .c_row = b->size,
                                                   .accumulate = true });
}

static void mix_block(const paged_batch *b, int64_t block, int64_t at, int64_t base) {
    const float *values = block_floats(b, b->values, &b->values_lie, block),
                *scales = scales_at(b, b->value_scales, block);
    for (int first = 0; first < b->count; first += GROUP) {
        int last = (int)smaller(first + GROUP, b->count);
        if (see_whole(b, first, last, at)) {
            add_values(b, values, scales, (int[]){ first, last }, (int64_t[]){ 0, CACHE_BLOCK },
                       b->query[first].scores + (at - base));
            continue;
        }
        for (int r = first; r < last; r++) {
            paged_span seen = b->query[r].seen;
            int64_t from = seen.first > at ? seen.first - at : 0,
                    to = smaller(seen.last - at + 1, CACHE_BLOCK);
            if (from < to)
                add_values(b, values, scales, (int[]){ r, r + 1 }, (int64_t[]){ from, to },
                           b->query[r].scores + (at - base));
        }
    }
}

/* The scores of one query, some blocks at a time; what is before the first or beyond the last has that one's
 * instead. */
static void score_alone(const paged_walk *w, const paged_batch *b, paged_span part, int64_t base) {
    const paged_query *x = &b->query[0];
    const int64_t step = PAGED_BLOCKS * CACHE_BLOCK, first = part.first / CACHE_BLOCK * CACHE_BLOCK,
                  last = part.last / CACHE_BLOCK * CACHE_BLOCK;
    for (int64_t at = part.first / step * step; at <= part.last; at += step) {
        int64_t block[PAGED_BLOCKS];
        float *to = x->scores + (at - base);
        for (int k = 0; k < PAGED_BLOCKS; k++) {
            int64_t here = smaller(at + k * CACHE_BLOCK, last);
            block[k] = paged_block(&w->sight, x->row, here < first ? first : here);
        }
        loops_of(b->type).scores(b, block, x->q, to);
        for (int k = 0; b->key_scales && k < PAGED_BLOCKS; k++)
            multiply_by(scales_at(b, b->key_scales, block[k]), to + k * CACHE_BLOCK);
    }
}

static void mix_alone(const paged_walk *w, const paged_batch *b, paged_span part, int64_t base) {
    const paged_query *x = &b->query[0];
    for (int64_t at = part.first / CACHE_BLOCK * CACHE_BLOCK; at <= part.last; at += CACHE_BLOCK) {
        int64_t block = paged_block(&w->sight, x->row, at);
        int first = part.first > at ? (int)(part.first - at) : 0;
        int last = (int)smaller(part.last - at + 1, CACHE_BLOCK);
        float *weights = x->scores + (at - base);
        if (b->value_scales) multiply_by(scales_at(b, b->value_scales, block), weights);
        loops_of(b->type).values(b, block, weights, first, last, x->part);
    }
}

/* What any of the queries see of a segment. */
static paged_span part_of_any(const paged_batch *b, int64_t segment) {
    paged_span any = { INT64_MAX, -1 };
    for (int r = 0; r < b->count; r++) {
        paged_span part = paged_part(b->query[r].seen, segment);
        if (part.last < part.first) continue;
        if (part.first < any.first) any.first = part.first;
        if (part.last > any.last) any.last = part.last;
    }
    return any;
}

/* Maximum, sum and sum of values of each query that sees something of the segment; false: none does. */
static bool attend_segment(const paged_walk *w, paged_batch *b, int64_t segment) {
    paged_span any = part_of_any(b, segment);
    int64_t base = segment * PAGED_SEGMENT, row = b->query[0].row;
    int64_t from = any.first / CACHE_BLOCK * CACHE_BLOCK;
    if (any.last < 0) return false;
    if (b->count == 1)
        score_alone(w, b, any, base);
    else
        for (int64_t at = from; at <= any.last; at += CACHE_BLOCK)
            score_block(b, paged_block(&w->sight, row, at), at, base);
    for (int r = 0; r < b->count; r++) {
        paged_query *x = &b->query[r];
        paged_span part = paged_part(x->seen, segment);
        memset(x->part, 0, (size_t)b->size * sizeof *x->part);
        if (part.last < part.first) continue;
        add_bias(w, x, part, base);
        weigh(x, part.first - base, part.last - base + 1, w->a->cap);
    }
    if (b->count == 1)
        mix_alone(w, b, any, base);
    else
        for (int64_t at = from; at <= any.last; at += CACHE_BLOCK)
            mix_block(b, paged_block(&w->sight, row, at), at, base);
    return true;
}

/* ---- segments together ---- */

typedef struct {
    float top, total;
    float *y;
} paged_sum;

VECTOR_CLONES static void join(paged_sum *to, float top, float total, const float *y, int64_t size) {
    paged_joint j = paged_joined(to->top, to->total, top, total);
    for (int64_t d = 0; d < size; d++) to->y[d] = vector_fused(y[d], j.more, to->y[d] * j.before);
    to->top = j.top, to->total = j.total;
}

static void open_sum(paged_sum *s, float *y, int64_t size) {
    *s = (paged_sum){ .top = -INFINITY, .y = y };
    memset(y, 0, (size_t)size * sizeof *y);
}

VECTOR_CLONES static void divide(float *y, float total, int64_t size) {
    float share = 1.0f / total;
    for (int64_t d = 0; d < size; d++) y[d] *= share;
}

static void store(const paged_walk *w, int64_t row, int64_t head, const paged_sum *s) {
    divide(s->y, s->total, w->a->size);
    fast_floats_store(&w->c->out[0], (row * w->a->heads + head) * w->a->size, w->a->size, s->y);
}

static float *joint_of(const paged_walk *w, int64_t row, int64_t head, int64_t segment) {
    return w->joints + ((row * w->a->heads + head) * segments_of(w->c) + segment) * (2 + (int64_t)w->a->size);
}

static void keep_joints(const paged_walk *w, const paged_batch *b, int64_t segment) {
    for (int r = 0; r < b->count; r++) {
        const paged_query *x = &b->query[r];
        float *to = joint_of(w, x->row, x->head, segment);
        to[0] = x->top, to[1] = x->total;
        memcpy(to + 2, x->part, (size_t)b->size * sizeof *to);
    }
}

static void attend_all_segments(const paged_walk *w, paged_batch *b) {
    paged_sum sum[TOGETHER];
    int64_t from = INT64_MAX, to = 0;
    for (int r = 0; r < b->count; r++) {
        open_sum(&sum[r], b->query[r].y, b->size);
        from = smaller(from, b->query[r].seen.first / PAGED_SEGMENT);
        to = -smaller(-to, -(b->query[r].seen.last / PAGED_SEGMENT));
    }
    for (int64_t segment = from; segment <= to; segment++) {
        if (!attend_segment(w, b, segment)) continue;
        for (int r = 0; r < b->count; r++) {
            const paged_query *x = &b->query[r];
            paged_span part = paged_part(x->seen, segment);
            if (part.first <= part.last) join(&sum[r], x->top, x->total, x->part, b->size);
        }
    }
    for (int r = 0; r < b->count; r++) store(w, b->query[r].row, b->query[r].head, &sum[r]);
}

static void read_query(const paged_walk *w, const paged_query *x) {
    const float *from =
        fast_floats(op_in(w->c, Q), x->row * w->width + x->head * w->a->size, w->a->size, x->q);
    for (int64_t d = 0; d < w->a->size; d++) x->q[d] = from[d] * w->scale;
}

/* segment < 0: all of them. */
static void attend(const paged_walk *w, paged_batch *b, int64_t segment) {
    for (int r = 0; r < b->count; r++) read_query(w, &b->query[r]);
    if (b->count && segment < 0) attend_all_segments(w, b);
    if (b->count && segment >= 0 && attend_segment(w, b, segment)) keep_joints(w, b, segment);
    b->count = 0;
}

/* ---- tasks ---- */

static void clear(const paged_walk *w, int64_t row, int64_t head) {
    const op_arg *y = &w->c->out[0];
    size_t bytes = (size_t)w->a->size * dtype_bytes(y->dtype);
    memset((char *)y->data + (size_t)(row * w->a->heads + head) * bytes, 0, bytes);
}

static paged_batch batch_of(const paged_walk *w, int64_t head, float *room) {
    const op_call *c = w->c;
    int64_t size = w->a->size, together = smaller(TOGETHER, w->rows * w->each);
    paged_batch b = { .keys = op_in(c, KEYS)->data,
                      .values = op_in(c, VALUES)->data,
                      .key_scales = op_in(c, KEY_SCALES)->data,
                      .value_scales = op_in(c, VALUE_SCALES)->data,
                      .keys_lie = { .heads = w->a->kv_heads, .size = w->a->size, .keys = 1 },
                      .values_lie = { .heads = w->a->kv_heads, .size = w->a->size },
                      .size = size,
                      .head = head,
                      .type = op_in(c, KEYS)->dtype,
                      .wide = room,
                      .weights = room + CACHE_BLOCK * size };
    room += CACHE_BLOCK * size + GROUP * CACHE_BLOCK;
    for (int64_t r = 0; r < together; r++)
        b.query[r] = (paged_query){ .q = room + r * size,
                                    .y = room + (together + r) * size,
                                    .part = room + (2 * together + r) * size,
                                    .scores = room + 3 * together * size + r * ROOM };
    return b;
}

static void add_query(const paged_walk *w, paged_batch *b, int64_t row, int64_t head, int64_t segment) {
    if (b->count == TOGETHER || (b->count && w->sight.text[b->query[0].row] != w->sight.text[row]))
        attend(w, b, segment);
    paged_query *x = &b->query[b->count++];
    x->row = row, x->head = head, x->seen = paged_seen(&w->sight, row);
}

static void attend_tile(const paged_walk *w, int64_t tile, int64_t segment, int thread) {
    int64_t first = tile / w->a->kv_heads * w->tile, head = tile % w->a->kv_heads;
    paged_batch b = batch_of(w, head, (float *)w->c->scratch + thread * floats_of(w->c));
    for (int64_t row = first; row < first + w->tile && row < w->rows; row++)
        for (int64_t h = head * w->each; h < (head + 1) * w->each; h++)
            if (paged_seen(&w->sight, row).last >= 0)
                add_query(w, &b, row, h, segment);
            else
                clear(w, row, h);
    attend(w, &b, segment);
}

static void run_tile(void *context, int64_t task, int thread) { attend_tile(context, task, -1, thread); }

static void run_segment(void *context, int64_t task, int thread) {
    const paged_walk *w = context;
    attend_tile(w, task / w->segments, task % w->segments, thread);
}

static void join_query(void *context, int64_t query, int thread) {
    const paged_walk *w = context;
    int64_t row = query / w->a->heads, head = query % w->a->heads, size = w->a->size;
    paged_span seen = paged_seen(&w->sight, row);
    paged_sum sum;
    if (seen.last < 0) return;
    open_sum(&sum, (float *)w->c->scratch + thread * floats_of(w->c), size);
    for (int64_t s = seen.first / PAGED_SEGMENT; s <= seen.last / PAGED_SEGMENT; s++) {
        const float *part = joint_of(w, row, head, s);
        join(&sum, part[0], part[1], part + 2, size);
    }
    store(w, row, head, &sum);
}

/* The last segment that any row sees, and one more. */
static int64_t segments_seen(const paged_walk *w) {
    int64_t last = 0;
    for (int64_t row = 0; row < w->rows; row++) {
        int64_t own = paged_seen(&w->sight, row).last / PAGED_SEGMENT;
        if (own > last) last = own;
    }
    return last + 1;
}

static void attention_paged_blocks(const op_call *c) {
    paged_walk w = walk_of(c);
    int64_t tiles = divide_up(w.rows, w.tile) * w.a->kv_heads;
    if (w.joints) w.segments = segments_seen(&w);
    if (w.segments > 1) {
        threads_for(tiles * w.segments, run_segment, &w);
        threads_for(w.rows * w.a->heads, join_query, &w);
    } else {
        threads_for(tiles, run_tile, &w);
    }
}

const op_kernel attention_paged_cpu[] = {
    { "attention_paged_cpu_blocks", fast_accepts_halves, paged_scratch, attention_paged_blocks },
    { "attention_paged_reference", NULL, NULL, attention_paged_reference },
    { 0 }
};
