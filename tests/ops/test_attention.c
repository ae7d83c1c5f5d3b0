/* What ties the two attentions together and to decoding: both give the same numbers under every option, their
 * bits depend on nothing but the sample, a cache gives what the whole text gives, and flash needs no more
 * scratch for a longer text. Each kernel against its reference is the op harness's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "harness_memory.h"
#include "ops/attention/attention_product.h"
#include "ops/attention_flash/attention_flash.h"

/* ---- a forward and backward program of one attention ---- */

typedef struct {
    const char *name;
    attention_attributes attributes;
    int64_t batch, queries, keys, size; /* keys 0: packed */
    bool lengths, segments, shifted;
    int32_t offset; /* where shifted */
} setup;

typedef struct {
    const setup *of;
    graph g;
    harness_memory memory;
    attention_inputs in;
    tensor_id dy, y, gradient[3]; /* of q, k, v */
} program;

static tensor_id source(graph *g, const char *name, shape s, dtype type) {
    return graph_add_source(g,
                            &(graph_source){ .name = name, .shape = s, .dtype = type, .role = ROLE_INPUT });
}

static void add_inputs(program *p, const setup *s, int64_t batch) {
    graph *g = &p->g;
    int64_t heads = s->attributes.heads, kv_heads = s->attributes.kv_heads ? s->attributes.kv_heads : heads;
    int64_t width = heads * s->size, kv_width = kv_heads * s->size;
    p->in.q = source(g, "q", SHAPE(batch, s->queries, s->keys ? width : width + 2 * kv_width), DTYPE_F32);
    if (s->keys) p->in.k = source(g, "k", SHAPE(batch, s->keys, kv_width), DTYPE_F32);
    if (s->keys) p->in.v = source(g, "v", SHAPE(batch, s->keys, kv_width), DTYPE_F32);
    if (s->lengths) p->in.lengths = source(g, "lengths", SHAPE(batch), DTYPE_I32);
    if (s->segments) p->in.segments = source(g, "segments", SHAPE(batch, s->queries), DTYPE_I32);
    if (s->shifted) p->in.offset = source(g, "offset", SHAPE(1), DTYPE_I32);
    p->in.key = source(g, "key", SHAPE(4), DTYPE_I32);
    p->dy = source(g, "dy", SHAPE(batch, s->queries, width), DTYPE_F32);
}

static void program_open(program *p, const setup *s, bool flash, int64_t batch) {
    *p = (program){ .of = s };
    assert_int_equal(graph_open(&p->g), STATUS_OK);
    add_inputs(p, s, batch);
    p->y = flash ? attention_flash_apply(&p->g, &p->in, &s->attributes)
                 : attention_apply(&p->g, &p->in, &s->attributes);
    if (!p->y) fail_msg("%s: %s", s->name, status_message());
    bool wanted[64] = { false };
    tensor_id gradient[64];
    assert_true(p->g.tensors.count <= 64);
    wanted[p->in.q] = true;
    if (s->keys) wanted[p->in.k] = wanted[p->in.v] = true;
    assert_int_equal(autodiff_run(&p->g, &(autodiff_seed){ p->y, p->dy }, 1, wanted, gradient), STATUS_OK);
    p->gradient[0] = gradient[p->in.q];
    if (s->keys) p->gradient[1] = gradient[p->in.k];
    if (s->keys) p->gradient[2] = gradient[p->in.v];
    assert_true(harness_memory_open(&p->memory, &p->g));
}

static void program_close(program *p) {
    harness_memory_close(&p->memory);
    graph_close(&p->g);
}

/* One sample of a tensor. */
static op_arg sample_of(const program *p, tensor_id t, int64_t b) {
    op_arg x = harness_memory_arg(&p->memory, t);
    int64_t samples = x.shape.dim[0], elements = shape_elements(&x.shape) / samples;
    x.data = (char *)x.data + (size_t)(b * elements) * dtype_bytes(x.dtype);
    x.shape = SHAPE(elements);
    return x;
}

/* Sample b holds what sample first + b of any batch holds. */
static void fill(const program *p, int64_t first, int64_t batch) {
    const setup *s = p->of;
    tensor_id floats[] = { p->in.q, p->in.k, p->in.v, p->dy };
    int64_t keys = s->keys ? s->keys : s->queries;
    for (int64_t b = 0; b < batch; b++) {
        uint64_t seed = 1000 * (uint64_t)(first + b);
        for (uint64_t i = 0; i < 4; i++)
            if (floats[i]) harness_fill(&(op_arg[]){ sample_of(p, floats[i], b) }[0], -1, 1, seed + i);
        if (s->lengths)
            harness_fill(&(op_arg[]){ sample_of(p, p->in.lengths, b) }[0], 1, (double)keys + 1, seed + 5);
        if (s->segments) harness_fill(&(op_arg[]){ sample_of(p, p->in.segments, b) }[0], 0, 3, seed + 6);
    }
    if (s->shifted) *(int32_t *)harness_memory_arg(&p->memory, p->in.offset).data = s->offset;
    philox_key key = { 11, 22, 33, (uint32_t)first };
    memcpy(harness_memory_arg(&p->memory, p->in.key).data, &key, sizeof key);
}

static const op_kernel *best_kernel(const op_call *c, const op_def *op) {
    const op_kernel *k = op->cpu;
    while (k->accepts && !k->accepts(c)) k++;
    return k;
}

static void run_node(const harness_memory *m, const node *n) {
    op_arg in[16], out[16];
    for (uint32_t i = 0; i < n->in_count; i++) in[i] = harness_memory_arg(m, node_in(m->g, n, i));
    for (uint32_t o = 0; o < n->out_count; o++) out[o] = harness_memory_arg(m, node_out(m->g, n, o));
    op_call c = { .in = in,
                  .out = out,
                  .in_count = n->in_count,
                  .out_count = n->out_count,
                  .attributes = node_attributes(m->g, n) };
    assert_true(harness_run_kernel(best_kernel(&c, n->op), &c));
}

static void run(const harness_memory *m) {
    for (node_id id = 1; id < m->g->nodes.count; id++) run_node(m, graph_node(m->g, id));
}

static void assert_close(const char *name, const char *what, const op_arg *is, const op_arg *should,
                         double tolerance) {
    const float *a = is->data, *b = should->data;
    double largest = 0.1; /* of inputs around 1: smaller results are what cancellation leaves */
    int64_t n = shape_elements(&should->shape);
    assert_true(n == shape_elements(&is->shape));
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= tolerance * largest))
            fail_msg("%s, %s: element %lld of %lld is %g, should be %g (largest %g)", name, what,
                     (long long)i, (long long)n, (double)a[i], (double)b[i], largest);
}

static void assert_same_bits(const char *name, const op_arg *is, const op_arg *should) {
    uint64_t bytes = (uint64_t)shape_elements(&should->shape) * dtype_bytes(should->dtype);
    if (memcmp(is->data, should->data, bytes) != 0) fail_msg("%s: other bits", name);
}

static const setup setups[] = {
    { "packed", { .heads = 3, .causal = 1 }, 2, 130, 0, 64, false, false, false, 0 },
    { "both ways", { .heads = 2 }, 2, 97, 0, 32, false, false, false, 0 },
    { "one token", { .heads = 4, .causal = 1 }, 3, 1, 0, 16, false, false, false, 0 },
    { "one key", { .heads = 2 }, 1, 65, 1, 8, false, false, false, 0 },
    { "dropout",
      { .heads = 2, .causal = 1, .dropout = 0.2f, .stream = 5 },
      2,
      130,
      0,
      16,
      false,
      false,
      false,
      0 },
    { "dropout, odd", { .heads = 3, .dropout = 0.6f, .stream = 9 }, 3, 67, 71, 5, true, false, false, 0 },
    { "lengths", { .heads = 2 }, 4, 100, 0, 24, true, false, false, 0 },
    { "segments", { .heads = 2, .causal = 1 }, 3, 150, 0, 12, true, true, false, 0 },
    { "grouped", { .heads = 6, .kv_heads = 2, .causal = 1 }, 2, 90, 90, 20, false, false, false, 0 },
    { "grouped, packed", { .heads = 4, .kv_heads = 1, .causal = 1 }, 2, 70, 0, 16, false, false, false, 0 },
    { "everything",
      { .heads = 4, .kv_heads = 2, .causal = 1, .scale = 0.3f, .dropout = 0.1f, .stream = -3, .window = 40 },
      3,
      131,
      131,
      33,
      true,
      true,
      false,
      0 },
    { "late", { .heads = 2, .causal = 1 }, 2, 70, 200, 16, true, false, true, 77 },
    { "early", { .heads = 2, .causal = 1 }, 2, 70, 200, 16, false, false, true, -66 },
    { "window", { .heads = 2, .causal = 1, .window = 30 }, 1, 200, 0, 16, false, false, false, 0 },
    { "band", { .heads = 2, .window = 70 }, 1, 200, 0, 16, false, false, false, 0 },
    { "sharp", { .heads = 2, .causal = 1, .scale = 40 }, 1, 140, 0, 48, false, false, false, 0 },
};
enum { SETUPS = sizeof setups / sizeof *setups };

static void flash_equals_plain(void **state) {
    (void)state;
    threads_set(2);
    for (int i = 0; i < SETUPS; i++) {
        const setup *s = &setups[i];
        program plain, flash;
        program_open(&plain, s, false, s->batch);
        program_open(&flash, s, true, s->batch);
        fill(&plain, 0, s->batch);
        fill(&flash, 0, s->batch);
        run(&plain.memory);
        run(&flash.memory);
        tensor_id of_plain[] = { plain.y, plain.gradient[0], plain.gradient[1], plain.gradient[2] };
        tensor_id of_flash[] = { flash.y, flash.gradient[0], flash.gradient[1], flash.gradient[2] };
        const char *names[] = { "y", "gradient of q", "gradient of k", "gradient of v" };
        for (int j = 0; j < 4; j++) {
            op_arg should = harness_memory_arg(&plain.memory, of_plain[j]);
            op_arg is = harness_memory_arg(&flash.memory, of_flash[j]);
            if (should.data)
                assert_close(s->name, names[j], &is, &should, s->attributes.scale > 1 ? 1e-4 : 1e-5);
        }
        program_close(&plain);
        program_close(&flash);
    }
}

/* With one thread the gradient is made head by head, with many the heads are cut. */
static void threads_change_no_bit(void **state) {
    (void)state;
    for (int i = 0; i < 2 * SETUPS; i++) {
        const setup *s = &setups[i / 2];
        program one, many;
        threads_set(1);
        program_open(&one, s, i % 2, 1);
        fill(&one, 0, 1);
        run(&one.memory);
        for (int threads = 2; threads <= 11; threads += 3) {
            threads_set(threads);
            program_open(&many, s, i % 2, 1);
            fill(&many, 0, 1);
            run(&many.memory);
            for (tensor_id t = one.y; t < one.g.tensors.count; t++)
                assert_same_bits(s->name, &(op_arg[]){ harness_memory_arg(&many.memory, t) }[0],
                                 &(op_arg[]){ harness_memory_arg(&one.memory, t) }[0]);
            program_close(&many);
        }
        program_close(&one);
    }
    threads_set(1);
}

/* Samples 1 .. 3 of a batch, alone and together with others. */
static void batch_changes_no_bit(void **state) {
    (void)state;
    threads_set(2);
    for (int i = 0; i < 2 * SETUPS; i++) {
        const setup *s = &setups[i / 2];
        program all, single;
        program_open(&all, s, i % 2, 4);
        fill(&all, 0, 4);
        run(&all.memory);
        for (int64_t b = 1; b < 4; b++) {
            program_open(&single, s, i % 2, 1);
            fill(&single, b, 1);
            run(&single.memory);
            for (tensor_id t = all.y; t < all.g.tensors.count; t++)
                assert_same_bits(s->name, &(op_arg[]){ sample_of(&single, t, 0) }[0],
                                 &(op_arg[]){ sample_of(&all, t, b) }[0]);
            program_close(&single);
        }
        program_close(&all);
    }
}

static bool all_zero(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0) return false;
    return true;
}

/* Queries at positions below 0 see nothing: their results and gradients are 0, and nobody else feels them. */
static void the_blind_get_nothing(void **state) {
    (void)state;
    static const setup blind = {
        "blind", { .heads = 2, .causal = 1 }, 1, 70, 30, 16, false, false, true, -40
    };
    for (int flash = 0; flash < 2; flash++) {
        program p;
        program_open(&p, &blind, flash, 1);
        fill(&p, 0, 1);
        run(&p.memory);
        const float *y = harness_memory_arg(&p.memory, p.y).data;
        const float *dq = harness_memory_arg(&p.memory, p.gradient[0]).data;
        assert_true(all_zero(y, 40 * 32) && all_zero(dq, 40 * 32));
        assert_false(all_zero(y + 40 * 32, 32));
        const float *dk = harness_memory_arg(&p.memory, p.gradient[1]).data;
        assert_false(all_zero(dk, 30 * 32));
        program_close(&p);
    }
}

/* ---- decoding ---- */

enum { HEADS = 4, KV_HEADS = 2, SIZE = 20, LENGTH = 150, CAPACITY = 170 };
enum { WIDTH = HEADS * SIZE, KV_WIDTH = KV_HEADS * SIZE, PACKED = WIDTH + 2 * KV_WIDTH };

static const attention_attributes decoder = { .heads = HEADS, .kv_heads = KV_HEADS, .causal = 1 };

/* Queries of `count` rows of projections, of which keys and values stand in two caches. */
typedef struct {
    graph g;
    harness_memory memory;
    tensor_id q, offset, keys, values, y;
    int64_t count;
} decoding;

static void decoding_open(decoding *d, bool flash, int64_t count) {
    *d = (decoding){ .count = count };
    assert_int_equal(graph_open(&d->g), STATUS_OK);
    graph *g = &d->g;
    d->q = source(g, "q", SHAPE(1, count, WIDTH), DTYPE_F32);
    d->offset = source(g, "offset", SHAPE(1), DTYPE_I32);
    d->keys = source(g, "keys", SHAPE(1, CAPACITY, KV_WIDTH), DTYPE_F32);
    d->values = source(g, "values", SHAPE(1, CAPACITY, KV_WIDTH), DTYPE_F32);
    attention_inputs in = { .q = d->q, .k = d->keys, .v = d->values, .offset = d->offset };
    d->y = flash ? attention_flash_apply(g, &in, &decoder) : attention_apply(g, &in, &decoder);
    assert_int_equal(graph_status(g), STATUS_OK);
    assert_true(harness_memory_open(&d->memory, g)); /* what does not stand there yet is NaN */
}

static void decode(const decoding *d, const float *projections, int32_t offset) {
    float *q = harness_memory_arg(&d->memory, d->q).data;
    float *keys = harness_memory_arg(&d->memory, d->keys).data;
    float *values = harness_memory_arg(&d->memory, d->values).data;
    *(int32_t *)harness_memory_arg(&d->memory, d->offset).data = offset;
    for (int64_t t = 0; t < d->count; t++) {
        const float *row = projections + (offset + t) * PACKED;
        memcpy(q + t * WIDTH, row, WIDTH * sizeof *q);
        memcpy(keys + (offset + t) * KV_WIDTH, row + WIDTH, KV_WIDTH * sizeof *q);
        memcpy(values + (offset + t) * KV_WIDTH, row + WIDTH + KV_WIDTH, KV_WIDTH * sizeof *q);
    }
    run(&d->memory);
}

static void decoding_close(decoding *d) {
    harness_memory_close(&d->memory);
    graph_close(&d->g);
}

static void assert_rows(const decoding *d, const float *whole, int32_t offset) {
    op_arg is = harness_memory_arg(&d->memory, d->y);
    op_arg should = { (void *)(uintptr_t)(whole + offset * WIDTH), is.shape, is.dtype };
    assert_close("decoding", "rows", &is, &should, 1e-6);
}

/* The first part of a text at once, then token by token, each against the row of the whole text. */
static void cache_gives_what_the_text_gives(void **state) {
    (void)state;
    static const setup text = { "text", { .heads = HEADS, .kv_heads = KV_HEADS, .causal = 1 },
                                1,      LENGTH,
                                0,      SIZE,
                                false,  false,
                                false,  0 };
    for (int flash = 0; flash < 2; flash++) {
        program whole;
        decoding first, next;
        program_open(&whole, &text, flash, 1);
        fill(&whole, 0, 1);
        run(&whole.memory);
        const float *projections = harness_memory_arg(&whole.memory, whole.in.q).data;
        const float *y = harness_memory_arg(&whole.memory, whole.y).data;
        decoding_open(&first, flash, 70);
        decoding_open(&next, flash, 1);
        decode(&first, projections, 0);
        assert_rows(&first, y, 0);
        tensor_id caches[][2] = { { first.keys, next.keys }, { first.values, next.values } };
        for (int i = 0; i < 2; i++)
            memcpy(harness_memory_arg(&next.memory, caches[i][1]).data,
                   harness_memory_arg(&first.memory, caches[i][0]).data, CAPACITY * KV_WIDTH * sizeof(float));
        for (int32_t offset = 70; offset < LENGTH; offset++) {
            decode(&next, projections, offset);
            assert_rows(&next, y, offset);
        }
        decoding_close(&next);
        decoding_close(&first);
        program_close(&whole);
    }
}

/* ---- memory, rules, products ---- */

static uint64_t scratch_of(const op_def *op, int64_t batch, int64_t length, int64_t size) {
    attention_attributes a = { .heads = 2, .causal = 1, .dropout = 0.1f };
    op_arg in[10] = { { NULL, SHAPE(batch, length, 6 * size), DTYPE_F32 } };
    op_arg out[2] = { { NULL, SHAPE(batch, length, 6 * size), DTYPE_F32 } };
    op_call c = { .in = in, .out = out, .in_count = 10, .out_count = 1, .attributes = &a };
    return op->cpu->scratch(&c, 1);
}

static void flash_scratch_does_not_grow(void **state) {
    (void)state;
    const op_def *ops[] = { &op_attention_flash, &op_attention_flash_backward };
    for (int i = 0; i < 2; i++) {
        uint64_t bytes = scratch_of(ops[i], 1, 64, 64);
        assert_true(bytes == scratch_of(ops[i], 1, 1 << 20, 64));
        assert_true(bytes == scratch_of(ops[i], 64, 1024, 64));
        assert_true(bytes <= 256 << 10);
    }
}

static void ops_can_be_exchanged(void **state) {
    (void)state;
    assert_int_equal(op_attention.in_count, op_attention_flash.in_count);
    assert_int_equal(op_attention.attribute_bytes, op_attention_flash.attribute_bytes);
    for (int i = 0; i < op_attention.in_count; i++)
        assert_string_equal(op_attention.inputs[i].name, op_attention_flash.inputs[i].name);
}

static void assert_refused(const attention_attributes *a, shape q, shape k, bool key) {
    graph g;
    assert_int_equal(graph_open(&g), STATUS_OK);
    attention_inputs in = { .q = source(&g, "q", q, DTYPE_F32) };
    if (k.rank) in.k = in.v = source(&g, "k", k, DTYPE_F32);
    if (key) in.key = source(&g, "key", SHAPE(4), DTYPE_I32);
    assert_int_equal(attention_flash_apply(&g, &in, a), 0);
    assert_int_equal(graph_status(&g), STATUS_INVALID);
    graph_close(&g);
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    shape none = { .rank = 0 };
    assert_refused(&(attention_attributes){ .heads = 0 }, SHAPE(1, 2, 12), none, false);
    assert_refused(&(attention_attributes){ .heads = 3, .kv_heads = 2 }, SHAPE(1, 2, 12), SHAPE(1, 2, 8),
                   false);
    assert_refused(&(attention_attributes){ .heads = 5 }, SHAPE(1, 2, 12), none, false);
    assert_refused(&(attention_attributes){ .heads = 2 }, SHAPE(1, 2, 12), SHAPE(2, 2, 12), false);
    assert_refused(&(attention_attributes){ .heads = 2 }, SHAPE(1, 2, 12), SHAPE(1, 2, 6), false);
    assert_refused(&(attention_attributes){ .heads = 2, .dropout = 0.1f }, SHAPE(1, 2, 12), none, false);
    assert_refused(&(attention_attributes){ .heads = 2, .dropout = 1 }, SHAPE(1, 2, 12), none, true);
}

enum { LARGEST = 40, ROW = 48 };

static void assert_product(const attention_multiplier *way, attention_product p, const float *before) {
    float c[LARGEST * ROW];
    memcpy(c, before, sizeof c);
    p.c = c;
    way->run(&p);
    for (int64_t i = 0; i < LARGEST; i++)
        for (int64_t j = 0; j < ROW; j++) {
            double sum = p.accumulate ? (double)before[i * ROW + j] : 0;
            for (int64_t k = 0; k < p.k && i < p.m && j < p.n; k++)
                sum += (double)p.a[i * p.a_row + k * p.a_column] * (double)p.b[k * p.b_row + j];
            bool outside = i >= p.m || j >= p.n;
            double should = outside ? (double)before[i * ROW + j] : sum;
            if (!(fabs((double)c[i * ROW + j] - should) <= (outside ? 0 : 1e-5)))
                fail_msg("%s: (%lld,%lld) of (%lld,%lld,%lld)", way->name, (long long)i, (long long)j,
                         (long long)p.m, (long long)p.n, (long long)p.k);
        }
}

/* Every instruction set that this machine has, every remainder of rows and columns, both layouts of the left
 * side. */
static void products_are_right(void **state) {
    (void)state;
    static float a[ROW * ROW], b[ROW * ROW], before[LARGEST * ROW];
    harness_fill(&(op_arg){ a, SHAPE(ROW * ROW), DTYPE_F32 }, -1, 1, 1);
    harness_fill(&(op_arg){ b, SHAPE(ROW * ROW), DTYPE_F32 }, -1, 1, 2);
    harness_fill(&(op_arg){ before, SHAPE(LARGEST * ROW), DTYPE_F32 }, -1, 1, 3);
    for (const attention_multiplier *way = attention_multipliers; way->name; way++)
        for (int64_t m = 1; m <= 17 && way->available(); m++)
            for (int64_t n = 1; n <= LARGEST; n++) {
                bool odd = (m + n) % 2;
                attention_product p = {
                    .m = m, .n = n, .k = (m * n) % 9, .a = a, .b = b, .b_row = ROW, .c_row = ROW
                };
                p.a_row = odd ? 1 : ROW;
                p.a_column = odd ? ROW : 1;
                p.accumulate = n % 3 == 0;
                assert_product(way, p, before);
            }
}

/* ---- cost ---- */

/* Which keys a query sees, one after the other. */
static double seen_by_force(const attention_attributes *a, int64_t queries, int64_t keys, bool shifted) {
    double pairs = 0;
    for (int64_t t = 0; t < queries; t++)
        for (int64_t k = 0, position = shifted ? keys - 1 : t; k < keys; k++) {
            bool later = a->causal && k > position && !shifted;
            bool far = a->window && (k <= position - a->window || k >= position + a->window);
            pairs += !later && !far;
        }
    return pairs;
}

/* flops say how many pairs there are: (2 x 2 x D + 16) each. */
static void cost_counts_pairs(void **state) {
    (void)state;
    enum { SAMPLES = 3 };
    for (int64_t queries = 1; queries <= 150; queries += 1 + queries / 3)
        for (int64_t keys = 1; keys <= 150; keys += 1 + keys / 3)
            for (int32_t window = 0; window <= 64; window = window ? window * 4 : 1)
                for (int kind = 0; kind < 4; kind++) {
                    setup s = { .name = "cost",
                                .attributes = { .heads = HEADS, .causal = kind & 1, .window = window },
                                .batch = SAMPLES,
                                .queries = queries,
                                .keys = keys,
                                .size = SIZE,
                                .shifted = kind & 2 };
                    program p = { .of = &s };
                    assert_int_equal(graph_open(&p.g), STATUS_OK);
                    add_inputs(&p, &s, SAMPLES);
                    tensor_id y = attention_apply(&p.g, &p.in, &s.attributes);
                    if (!y) fail_msg("%s", status_message());
                    const node *n = graph_node(&p.g, graph_tensor(&p.g, y)->producer);
                    double pairs = n->op->cost(&p.g, n).flops / (4 * SIZE + 16) / (HEADS * SAMPLES);
                    assert_float_equal(pairs, seen_by_force(&s.attributes, queries, keys, kind & 2), 1e-6);
                    graph_close(&p.g);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_counts_pairs),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(flash_equals_plain),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(batch_changes_no_bit),
        cmocka_unit_test(the_blind_get_nothing),
        cmocka_unit_test(cache_gives_what_the_text_gives),
        cmocka_unit_test(flash_scratch_does_not_grow),
        cmocka_unit_test(ops_can_be_exchanged),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
