/* Attention on tensor cores, emulated: bit for bit what plain C adds in the order of the instructions, query
 * by query and key by key, knowing nothing of blocks; so a row has the same bits alone and among others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_CUDA_EMULATED

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/memory.h"
#include "device/device_gpu.h"
#include "lower/lower.h"
#include "ops/attention/attention_view.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/attention_flash/attention_flash_math.h"
#include "ops/softcap/softcap_math.h"

enum { CAPABILITY = 90, DEPTHS = 16, STEP = 32, WIDEST = 128, FORWARD_INPUTS = 8, BACKWARD_INPUTS = 11 };
enum { Q, K, V, Y, LSE, DY, DQ, DK, DV, OPERANDS };

typedef struct {
    int64_t batch, queries, keys /* 0: packed */, size;
    attention_attributes attributes;
    dtype type;
    bool lengths, segments, bias;
    int32_t offset; /* 0: absent */
    int shift;      /* numbers that operands lie beyond an aligned address */
} form;

typedef struct {
    form f;
    int64_t heads, kv_heads, keys;
    void *memory[OPERANDS];
    op_arg operand[OPERANDS]; /* of packed ones k, v, dk and dv are absent */
    int32_t *lengths, *segments, offset[1], key[4];
    float *bias;
} whole;

/* ---- numbers ---- */

static uint16_t narrow(dtype type, float x) { return type == DTYPE_BF16 ? half_to_bf16(x) : half_to_f16(x); }
static float wide(dtype type, uint16_t x) {
    return type == DTYPE_BF16 ? half_from_bf16(x) : half_from_f16(x);
}
static float rounded(dtype type, float x) { return wide(type, narrow(type, x)); }

/* A number of d = a b + d by one mma, as its twin adds. */
static float mma(float d, const float a[DEPTHS], const float b[DEPTHS]) {
    double sum = (double)d;
    for (int k = 0; k < DEPTHS; k++) sum += (double)a[k] * (double)b[k];
    return (float)sum;
}

static void *room(int64_t elements, size_t bytes) {
    void *data = memory_new((size_t)elements + 16, bytes);
    assert_non_null(data);
    return data;
}

static void fill(uint16_t *x, int64_t n, dtype type, unsigned seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = narrow(type, (float)(seed >> 8) * 0x1p-23f - 1.0f);
    }
}

/* ---- a case ---- */

static op_arg operand_new(whole *w, int which, int64_t length, int64_t width, bool drawn) {
    int64_t n = w->f.batch * length * width;
    w->memory[which] = room(n, sizeof(uint16_t));
    uint16_t *data = (uint16_t *)w->memory[which] + w->f.shift;
    if (drawn) fill(data, n, w->f.type, (unsigned)which + 1);
    return (op_arg){ data, { { w->f.batch, length, width }, 3 }, w->f.type };
}

static void inputs_of(whole *w, uint16_t count, op_arg *in) {
    const form *f = &w->f;
    int first = count == FORWARD_INPUTS ? 3 : 6;
    memset(in, 0, count * sizeof *in);
    memcpy(in, w->operand, (size_t)first * sizeof *in);
    if (f->lengths) in[first] = (op_arg){ w->lengths, { { f->batch }, 1 }, DTYPE_I32 };
    if (f->segments) in[first + 1] = (op_arg){ w->segments, { { f->batch, f->queries }, 2 }, DTYPE_I32 };
    if (f->offset) in[first + 2] = (op_arg){ w->offset, { { 1 }, 1 }, DTYPE_I32 };
    in[first + 3] = (op_arg){ w->key, { { 4 }, 1 }, DTYPE_I32 };
    if (f->bias) in[first + 4] = (op_arg){ w->bias, { { w->heads, f->queries, w->keys }, 3 }, DTYPE_F32 };
}

static void run_kernel(const op_kernel *k, op_call *c) {
    assert_true(k->accepts(c));
    uint64_t bytes = k->scratch ? k->scratch(c, 1) : 0;
    c->scratch = bytes ? memory_new(1, bytes) : NULL;
    k->run(c);
    memory_free(c->scratch);
}

static void forward(whole *w) {
    op_arg in[FORWARD_INPUTS], out[] = { w->operand[Y], w->operand[LSE] };
    inputs_of(w, FORWARD_INPUTS, in);
    run_kernel(op_attention_flash.tensor, &(op_call){ .in = in,
                                                      .out = out,
                                                      .in_count = FORWARD_INPUTS,
                                                      .out_count = 2,
                                                      .capability = CAPABILITY,
                                                      .attributes = &w->f.attributes });
}

static void backward(whole *w) {
    op_arg in[BACKWARD_INPUTS], out[] = { w->operand[DQ], w->operand[DK], w->operand[DV] };
    inputs_of(w, BACKWARD_INPUTS, in);
    run_kernel(op_attention_flash_backward.tensor, &(op_call){ .in = in,
                                                               .out = out,
                                                               .in_count = BACKWARD_INPUTS,
                                                               .out_count = w->f.keys ? 3 : 1,
                                                               .capability = CAPABILITY,
                                                               .attributes = &w->f.attributes });
}

static void whole_open(whole *w, const form *f) {
    int64_t heads = f->attributes.heads, kv_heads = f->attributes.kv_heads ? f->attributes.kv_heads : heads;
    *w = (whole){ .f = *f,
                  .heads = heads,
                  .kv_heads = kv_heads,
                  .keys = f->keys ? f->keys : f->queries,
                  .offset = { f->offset },
                  .key = { 7, 11, 3, 2 } };
    int64_t own = heads * f->size, theirs = kv_heads * f->size, q = f->keys ? own : own + 2 * theirs;
    w->operand[Q] = operand_new(w, Q, f->queries, q, true);
    w->operand[DQ] = operand_new(w, DQ, f->queries, q, false);
    for (int i = 1; f->keys && i < 3; i++) {
        w->operand[Q + i] = operand_new(w, Q + i, f->keys, theirs, true);
        w->operand[DQ + i] = operand_new(w, DQ + i, f->keys, theirs, false);
    }
    w->operand[Y] = operand_new(w, Y, f->queries, own, false);
    w->operand[DY] = operand_new(w, DY, f->queries, own, true);
    w->memory[LSE] = room(f->batch * heads * f->queries, sizeof(float));
    w->operand[LSE] = (op_arg){ w->memory[LSE], { { f->batch, heads, f->queries }, 3 }, DTYPE_F32 };
    w->lengths = room(f->batch, sizeof(int32_t)), w->segments = room(f->batch * f->queries, sizeof(int32_t));
    w->bias = room(heads * f->queries * w->keys, sizeof(float));
    for (int64_t b = 0; b < f->batch; b++) w->lengths[b] = (int32_t)(w->keys - b * w->keys / 2);
    for (int64_t i = 0; i < f->batch * f->queries; i++) w->segments[i] = (int32_t)(i % f->queries / 37);
    for (int64_t i = 0; i < heads * f->queries * w->keys; i++) w->bias[i] = (float)(i % 13) * 0.1f - 0.6f;
    forward(w);
    if (!f->bias) backward(w);
}

static void whole_close(whole *w) {
    for (int i = 0; i < OPERANDS; i++) memory_free(w->memory[i]);
    memory_free(w->lengths), memory_free(w->segments), memory_free(w->bias);
}

/* ---- what the instructions make of it ---- */

/* Lines of the case by head, wide, zeros behind their ends. */
typedef struct {
    whole *w;
    attention_view v;
    op_arg in[BACKWARD_INPUTS];
    attention_place dq, dk, dv, y, dy;
} seen;

static void see(whole *w, seen *s) {
    s->w = w;
    inputs_of(w, BACKWARD_INPUTS, s->in);
    op_arg out[] = { w->operand[DQ], w->operand[DK], w->operand[DV] };
    op_call c = { .in = s->in, .out = out, .in_count = BACKWARD_INPUTS, .attributes = &w->f.attributes };
    s->v = attention_view_of(&c, 6);
    attention_outputs o = attention_view_outputs(&s->v, &c);
    s->dq = o.q, s->dk = o.k, s->dv = o.v;
    s->dq.arg = &w->operand[DQ];
    s->dk.arg = w->f.keys ? &w->operand[DK] : s->dq.arg, s->dv.arg = w->f.keys ? &w->operand[DV] : s->dq.arg;
    s->y = attention_view_rows(&s->v, &w->operand[Y]), s->dy = attention_view_rows(&s->v, &w->operand[DY]);
}

static void line_of(const seen *s, const attention_place *p, int64_t row, int64_t head, float to[WIDEST]) {
    const uint16_t *x = (const uint16_t *)p->arg->data + attention_element(&s->v, p, row, head);
    for (int64_t d = 0; d < WIDEST; d++) to[d] = d < s->v.n.size ? wide(s->w->f.type, x[d]) : 0.0f;
}

static float inner(const float a[WIDEST], const float b[WIDEST], int64_t size) {
    float sum = 0;
    for (int64_t d = 0; d < size; d += DEPTHS) sum = mma(sum, a + d, b + d);
    return sum;
}

typedef struct {
    int64_t b, h, t;
} query;

static const float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

/* ex2, as its twin rounds. */
static float power_of_2(float x) {
    float y = (float)exp2((double)x);
    return y < 0x1p-126f ? 0 : y;
}

/* Of a query and a key, counted in powers of 2; minus infinity where they don't see each other. `natural`: in
 * powers of e. */
static float score_of(const seen *s, const query *at, int64_t key, float *natural) {
    const attention_view *v = &s->v;
    float q[WIDEST], k[WIDEST];
    int64_t g = at->h / (v->n.heads / v->n.kv_heads);
    if (!attention_sight_sees(&v->sight, at->b, at->t, key)) return -INFINITY;
    line_of(s, &v->q, at->b * v->n.queries + at->t, at->h, q),
        line_of(s, &v->k, at->b * v->n.keys + key, g, k);
    float scale = (float)v->scale, x = inner(q, k, v->n.size);
    *natural = x * scale;
    if (v->cap > 0)
        *natural = softcap_value_f32(x * scale, v->cap);
    else if (s->w->f.bias)
        *natural += s->w->bias[(at->h * v->n.queries + at->t) * v->n.keys + key];
    bool special = v->cap > 0 || s->w->f.bias || v->sight.segments || v->dropout > 0;
    return special ? *natural * LOG2_E : x * (scale * LOG2_E);
}

/* sum = sum * shrink + lines times weights, `count` lines from `first` on. */
static void add_lines(const seen *s, const attention_place *p, int64_t rows, int64_t first, int64_t head,
                      int count, const float *weights, float shrink, float *sum) {
    float lines[ATTENTION_TILE][WIDEST], column[DEPTHS], some[DEPTHS];
    for (int i = 0; i < count; i++) {
        memset(lines[i], 0, sizeof lines[i]);
        if (first + i < rows) line_of(s, p, first + i, head, lines[i]);
    }
    for (int64_t d = 0; d < s->v.n.size; d++) {
        float step = 0;
        for (int i = 0; i < count; i += DEPTHS) {
            for (int k = 0; k < DEPTHS; k++)
                column[k] = lines[i + k][d], some[k] = rounded(s->w->f.type, weights[i + k]);
            step = mma(step, some, column);
        }
        sum[d] = fmaf(sum[d], shrink, step);
    }
}

static float keeps(const seen *s, const query *at, int64_t key) {
    return (float)attention_view_keeps(&s->v, at->b, at->h, at->t, key);
}

/* Four threads have the keys 2t and 2t + 1 of every eight; each adds its own. */
static void soften(float x[ATTENTION_TILE], float *top, float part[4], float *shrink) {
    float now = *top;
    for (int i = 0; i < ATTENTION_TILE; i++) now = fmaxf(now, x[i]);
    float reached = attention_reached(now);
    *shrink = power_of_2(*top - reached), *top = now;
    for (int t = 0; t < 4; t++) part[t] *= *shrink;
    for (int i = 0; i < ATTENTION_TILE; i++) {
        x[i] = power_of_2(x[i] - reached);
        part[i % 8 / 2] += x[i];
    }
}

static void check_query(const seen *s, const query *at) {
    const attention_view *v = &s->v;
    float mixed[WIDEST] = { 0 }, top = -INFINITY, part[4] = { 0 }, shrink, natural;
    int64_t first, last, row = at->b * v->n.queries + at->t, g = at->h / (v->n.heads / v->n.kv_heads);
    attention_sight_keys(&v->sight, at->b, at->t, 1, &first, &last);
    for (int64_t tile = first / ATTENTION_TILE * ATTENTION_TILE; tile < last; tile += ATTENTION_TILE) {
        float x[ATTENTION_TILE];
        for (int i = 0; i < ATTENTION_TILE; i++)
            x[i] = tile + i < v->n.keys ? score_of(s, at, tile + i, &natural) : -INFINITY;
        soften(x, &top, part, &shrink);
        for (int i = 0; v->dropout > 0 && i < ATTENTION_TILE; i++)
            if (x[i] != 0) x[i] *= keeps(s, at, tile + i);
        add_lines(s, &v->v, (at->b + 1) * v->n.keys, at->b * v->n.keys + tile, g, ATTENTION_TILE, x, shrink,
                  mixed);
    }
    float sum = (part[0] + part[1]) + (part[2] + part[3]), lse = attention_flash_lse(top * LN_2, sum);
    float is = ((float *)s->w->operand[LSE].data)[(at->b * v->n.heads + at->h) * v->n.queries + at->t];
    if (memcmp(&is, &lse, sizeof is) != 0)
        fail_msg("lse of sample %d, head %d, query %d is %.9g, not %.9g", (int)at->b, (int)at->h, (int)at->t,
                 (double)is, (double)lse);
    float y[WIDEST];
    line_of(s, &s->y, row, at->h, y);
    for (int64_t d = 0; d < v->n.size; d++)
        if (y[d] != rounded(s->w->f.type, mixed[d] * attention_share(sum)))
            fail_msg("y of sample %d, head %d, query %d, number %d", (int)at->b, (int)at->h, (int)at->t,
                     (int)d);
}

/* ---- the gradient ---- */

/* What the slopes of a query have in common, as the plain kernels add. */
static float common_of(const seen *s, const query *at) {
    float y[WIDEST], dy[WIDEST], part[16] = { 0 };
    int64_t row = at->b * s->v.n.queries + at->t;
    line_of(s, &s->y, row, at->h, y), line_of(s, &s->dy, row, at->h, dy);
    for (int64_t d = 0; d < s->v.n.size; d++) part[d % 16] += y[d] * dy[d];
    for (int lanes = 8; lanes; lanes /= 2)
        for (int i = 0; i < lanes; i++) part[i] += part[i + lanes];
    return part[0];
}

/* The probability that the values were multiplied by, and the slope of the score, less the scale. */
static void pair_of(const seen *s, const query *at, int64_t key, float *weight, float *slope) {
    const attention_view *v = &s->v;
    float dy[WIDEST], values[WIDEST], natural, score = score_of(s, at, key, &natural);
    int64_t row = (at->b * v->n.heads + at->h) * v->n.queries + at->t,
            g = at->h / (v->n.heads / v->n.kv_heads);
    *weight = *slope = 0;
    if (score == -INFINITY) return;
    line_of(s, &s->dy, at->b * v->n.queries + at->t, at->h, dy);
    line_of(s, &v->v, at->b * v->n.keys + key, g, values);
    float p = power_of_2(score - ((float *)s->w->operand[LSE].data)[row] * LOG2_E), keep = keeps(s, at, key);
    *slope = p * (inner(dy, values, v->n.size) * keep - common_of(s, at));
    if (v->cap > 0) *slope *= softcap_slope_f32(natural, v->cap);
    *weight = p * keep;
}

static void check_line(const seen *s, const attention_place *p, int64_t row, int64_t head, const float *sum,
                       float scale, const char *what) {
    float is[WIDEST];
    line_of(s, p, row, head, is);
    for (int64_t d = 0; d < s->v.n.size; d++)
        if (is[d] != rounded(s->w->f.type, sum[d] * scale))
            fail_msg("%s of row %d, head %d, number %d is %.9g, not %.9g", what, (int)row, (int)head, (int)d,
                     (double)is[d], (double)rounded(s->w->f.type, sum[d] * scale));
}

static void check_query_gradient(const seen *s, const query *at) {
    const attention_view *v = &s->v;
    float dq[WIDEST] = { 0 }, weight, slopes[STEP];
    int64_t g = at->h / (v->n.heads / v->n.kv_heads);
    for (int64_t from = 0; from < v->n.keys; from += STEP) {
        for (int i = 0; i < STEP; i++) {
            slopes[i] = 0;
            if (from + i < v->n.keys) pair_of(s, at, from + i, &weight, &slopes[i]);
        }
        add_lines(s, &v->k, (at->b + 1) * v->n.keys, at->b * v->n.keys + from, g, STEP, slopes, 1, dq);
    }
    check_line(s, &s->dq, at->b * v->n.queries + at->t, at->h, dq, (float)v->scale, "dq");
}

static void check_key_gradient(const seen *s, int64_t b, int64_t g, int64_t key) {
    const attention_view *v = &s->v;
    float dk[WIDEST] = { 0 }, dv[WIDEST] = { 0 }, weights[STEP], slopes[STEP];
    int64_t group = v->n.heads / v->n.kv_heads, rows = (b + 1) * v->n.queries;
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t from = 0; from < v->n.queries; from += STEP) {
            for (int i = 0; i < STEP; i++) {
                weights[i] = slopes[i] = 0;
                query at = { b, h, from + i };
                if (at.t < v->n.queries) pair_of(s, &at, key, &weights[i], &slopes[i]);
            }
            add_lines(s, &v->q, rows, b * v->n.queries + from, h, STEP, slopes, 1, dk);
            add_lines(s, &s->dy, rows, b * v->n.queries + from, h, STEP, weights, 1, dv);
        }
    check_line(s, &s->dk, b * v->n.keys + key, g, dk, (float)v->scale, "dk");
    check_line(s, &s->dv, b * v->n.keys + key, g, dv, 1, "dv");
}

/* ---- tests ---- */

static const form forms[] = {
    { 2, 130, 0, 64, { .heads = 2, .causal = 1 }, DTYPE_BF16, .shift = 0 },
    { 1, 100, 0, 128, { .heads = 1, .causal = 1, .scale = 0.3f }, DTYPE_F16, .shift = 0 },
    { 1, 70, 150, 64, { .heads = 4, .kv_heads = 2 }, DTYPE_F16, .lengths = true },
    { 2, 90, 90, 16, { .heads = 2, .window = 40 }, DTYPE_BF16, .lengths = true, .shift = 1 },
    { 1, 150, 0, 80, { .heads = 1, .causal = 1, .window = 33 }, DTYPE_BF16, .shift = 0 },
    { 2, 75, 0, 40, { .heads = 2, .causal = 1, .dropout = 0.3f, .stream = 5 }, DTYPE_BF16, .segments = true },
    { 1, 5, 140, 24, { .heads = 3, .causal = 1, .cap = 1.5f }, DTYPE_F16, .offset = 131 },
    { 1, 66, 0, 100, { .heads = 2, .kv_heads = 1, .cap = 2, .dropout = 0.5f }, DTYPE_F16, .shift = 3 },
    { 2, 40, 70, 32, { .heads = 2, .causal = 1 }, DTYPE_BF16, .bias = true, .offset = 20 },
};

static bool is_looked_at(int64_t i, int64_t n) { return i < 2 || i > n - 3 || i % 9 == 4; }

static void bits_are_those_of_the_instructions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        whole w;
        seen s;
        whole_open(&w, &forms[i]);
        see(&w, &s);
        for (int64_t b = 0; b < w.f.batch; b++)
            for (int64_t h = 0; h < w.heads; h++)
                for (int64_t t = 0; t < w.f.queries; t++) {
                    query at = { b, h, t };
                    if (is_looked_at(t, w.f.queries)) check_query(&s, &at);
                    if (is_looked_at(t, w.f.queries) && !w.f.bias) check_query_gradient(&s, &at);
                }
        for (int64_t b = 0; b < w.f.batch && !w.f.bias; b++)
            for (int64_t g = 0; g < w.kv_heads; g++)
                for (int64_t key = 0; key < w.keys; key++)
                    if (is_looked_at(key, w.keys)) check_key_gradient(&s, b, g, key);
        whole_close(&w);
    }
}

/* The second of two samples by itself, at another address. */
static void a_sample_has_its_bits(void **state) {
    (void)state;
    static const form both = { 2, 100, 0, 48, { .heads = 2, .causal = 1 }, DTYPE_BF16, .shift = 0 };
    whole w, one;
    whole_open(&w, &both);
    form f = both;
    f.batch = 1, f.shift = 5;
    whole_open(&one, &f);
    static const int given[] = { Q, DY }, made[] = { Y, DQ };
    for (size_t i = 0; i < 2; i++) {
        int which = given[i];
        int64_t n = shape_elements(&one.operand[which].shape);
        memcpy(one.operand[which].data, (uint16_t *)w.operand[which].data + n, (size_t)n * sizeof(uint16_t));
    }
    forward(&one), backward(&one);
    for (size_t i = 0; i < 2; i++) {
        int64_t n = shape_elements(&one.operand[made[i]].shape);
        assert_memory_equal(one.operand[made[i]].data, (uint16_t *)w.operand[made[i]].data + n,
                            (size_t)n * sizeof(uint16_t));
    }
    whole_close(&w), whole_close(&one);
}

/* Nothing takes them unasked, nor without the instructions, in f32, or for wider heads. */
static void they_are_asked_for(void **state) {
    (void)state;
    static const struct {
        const char *pin;
        uint32_t capability;
        dtype type;
        int64_t size;
        bool taken, bias;
    } cases[] = { { "tensor-cores", 90, DTYPE_BF16, 64, true, false },
                  { "tensor-cores", 80, DTYPE_F16, 128, true, false },
                  { "tensor-cores", 75, DTYPE_BF16, 64, false, false },
                  { "tensor-cores", 90, DTYPE_F32, 64, false, false },
                  { "tensor-cores", 90, DTYPE_BF16, 136, false, false },
                  { "tensor-cores", 90, DTYPE_BF16, 64, false, true }, /* whose gradient is theirs, */
                  { "auto", 90, DTYPE_BF16, 64, false, false },        /* until a GPU has confirmed them */
                  { "widened", 90, DTYPE_BF16, 64, false, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attention_attributes t = { .heads = 2 };
        op_arg row = { NULL, { { 1, 4, 2 * cases[i].size }, 3 }, cases[i].type };
        op_arg bias = { NULL, { { 2, 4, 4 }, 3 }, DTYPE_F32 };
        op_arg in[BACKWARD_INPUTS] = { row, row, row, row, { NULL, { { 1, 2, 4 }, 3 }, DTYPE_F32 }, row };
        if (cases[i].bias) in[10] = bias;
        op_call c = {
            .in = in, .in_count = BACKWARD_INPUTS, .capability = cases[i].capability, .attributes = &t
        };
        assert_int_equal(instructions_pin(cases[i].pin), STATUS_OK);
        assert_int_equal(op_attention_flash_backward.tensor->accepts(&c), cases[i].taken);
        op_arg given[FORWARD_INPUTS] = { row, row, row };
        if (cases[i].bias) given[ATTENTION_BIAS] = bias;
        c.in = given, c.in_count = FORWARD_INPUTS;
        assert_int_equal(op_attention_flash.tensor->accepts(&c), cases[i].taken || cases[i].bias);
    }
    assert_int_equal(instructions_pin(INSTRUCTIONS_TENSOR), STATUS_OK);
}

/* A plan for such a GPU has them, and reckons with their rate; without them attention has that of f32. */
static void plans_take_them(void **state) {
    (void)state;
    static const device_gpu gpu = { .name = "some",
                                    .title = "some GPU",
                                    .capability = CAPABILITY,
                                    .multiprocessors = 100,
                                    .memory = 1ull << 30,
                                    .f32 = 1e13,
                                    .f16 = 1e15,
                                    .bandwidth = 1e15,
                                    .call_seconds = 1e-12 };
    static const char *const pins[] = { "widened", INSTRUCTIONS_TENSOR };
    static const char *const names[] = { "attention_flash_cuda_tiled", "attention_flash_cuda_tensor" };
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        device_elsewhere at;
        graph g;
        program p = { 0 };
        assert_int_equal(instructions_pin(pins[i]), STATUS_OK);
        assert_int_equal(device_elsewhere_plan(&gpu, &at), STATUS_OK);
        assert_int_equal(graph_open(&g), STATUS_OK);
        graph_source q = {
            .name = "q", .shape = SHAPE(2, 512, 3 * 128), .dtype = DTYPE_BF16, .role = ROLE_INPUT
        };
        attention_inputs in = { .q = graph_add_source(&g, &q) };
        attention_flash_apply(&g, &in, &(attention_attributes){ .heads = 2, .causal = 1 });
        lower_options o = { .device = &at.device, .threads = 1, .rates = device_gpu_rates(&gpu, 1) };
        assert_int_equal(lower_program(&g, &o, &p), STATUS_OK);
        assert_string_equal(p.steps[0].kernel->name, names[i]);
        assert_false(p.steps[0].by_host);
        assert_int_equal(lower_cost(&p.graph, &p.steps[0]).kind, i ? WORK_ATTENTION_HALF : WORK_ATTENTION);
        seconds[i] = p.seconds;
        lower_close(&p);
    }
    assert_true(seconds[1] < 0.1 * seconds[0]);
}

/* With an argument, the test of that name only. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_asked_for),
        cmocka_unit_test(bits_are_those_of_the_instructions),
        cmocka_unit_test(a_sample_has_its_bits),
        cmocka_unit_test(plans_take_them),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (instructions_pin(INSTRUCTIONS_TENSOR) != STATUS_OK) return 1;
    return cmocka_run_group_tests_name("attention on tensor cores", tests, NULL, NULL);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("attention on tensor cores"); }

#endif
