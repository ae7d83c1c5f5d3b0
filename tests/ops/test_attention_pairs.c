/* Attention of bf16 on tiles, with and without kept probabilities: the compiled kernel has the bits of its
 * twin in plain C (by a trap on processors without tiles); the bits of a sample, and of a query, depend on
 * nothing else; results are those of widened operands but for what rounding weights to bf16 does; a plan does
 * not see which way is taken. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "harness_memory.h"
#include "ops/attention/attention.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/matmul/matmul_kernel.h"
#if defined(__x86_64__)
#include "tile_trap.h"
#endif

typedef struct {
    const char *name;
    attention_attributes attributes;
    int64_t batch, queries, keys, size; /* keys 0: packed */
    bool lengths, segments, shifted;
    int32_t offset; /* where shifted */
} form;

static const form forms[] = {
    { "packed", { .heads = 2, .causal = 1 }, 2, 130, 0, 64, false, false, false, 0 },
    { "heads of 80", { .heads = 1, .causal = 1 }, 1, 70, 0, 80, false, false, false, 0 },
    { "heads of 96", { .heads = 1 }, 1, 100, 0, 96, false, false, false, 0 },
    { "heads of 128", { .heads = 1, .causal = 1 }, 1, 65, 0, 128, false, false, false, 0 },
    { "odd heads", { .heads = 3, .causal = 1 }, 1, 97, 0, 13, false, false, false, 0 },
    { "one token", { .heads = 4, .causal = 1 }, 3, 1, 0, 16, false, false, false, 0 },
    { "one key", { .heads = 2 }, 1, 65, 1, 8, false, false, false, 0 },
    { "dropout",
      { .heads = 2, .causal = 1, .dropout = 0.2f, .stream = 5 },
      2,
      131,
      0,
      16,
      false,
      false,
      false,
      0 },
    { "dropout, few", { .heads = 3, .dropout = 0.6f, .stream = 9 }, 3, 27, 71, 5, true, false, false, 0 },
    { "lengths", { .heads = 2 }, 4, 100, 0, 24, true, false, false, 0 },
    { "segments", { .heads = 2, .causal = 1 }, 3, 150, 0, 12, true, true, false, 0 },
    { "grouped", { .heads = 6, .kv_heads = 2, .causal = 1 }, 2, 90, 90, 20, false, false, false, 0 },
    { "grouped, packed", { .heads = 4, .kv_heads = 1, .causal = 1 }, 2, 70, 0, 32, false, false, false, 0 },
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
    { "capped", { .heads = 2, .causal = 1, .scale = 2, .cap = 3 }, 2, 70, 0, 24, false, false, false, 0 },
    { "capped, dropped", { .heads = 1, .dropout = 0.3f, .cap = 3 }, 1, 66, 35, 24, false, false, false, 0 },
    { "late", { .heads = 2, .causal = 1 }, 2, 70, 200, 16, true, false, true, 77 },
    { "early", { .heads = 2, .causal = 1 }, 2, 70, 200, 16, false, false, true, -66 },
    { "window", { .heads = 2, .causal = 1, .window = 30 }, 1, 200, 0, 16, false, false, false, 0 },
    { "band", { .heads = 2, .window = 70 }, 1, 200, 0, 16, false, false, false, 0 },
    { "sharp", { .heads = 2, .causal = 1, .scale = 4 }, 1, 140, 0, 48, false, false, false, 0 },
};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- one attention, forward and backward ---- */

enum { Q, K, V, DY, Y, KEPT, DQ, DK, DV, OPERANDS };

/* The ops: KEPT is the logarithm of sums, or probabilities. */
typedef struct {
    const op_kernel *forward, *backward;
    bool probs;
} attention;
static const attention flash = { attention_flash_cpu, attention_flash_backward_cpu, false };
static const attention plain = { attention_cpu, attention_backward_cpu, true };

typedef struct {
    const attention *op;
    const form *f;
    int64_t batch, keys;
    op_arg operand[OPERANDS]; /* absent: k, v, dk and dv of a packed one */
    int32_t *lengths, *segments, offset[1];
    philox_key key;
} made;

static op_arg operand_new(int64_t batch, int64_t length, int64_t width, dtype type) {
    op_arg x = { .shape = SHAPE(batch, length, width), .dtype = type };
    uint64_t elements = (uint64_t)shape_elements(&x.shape);
    x.data = memory_new(elements, dtype_bytes(type));
    assert_non_null(x.data);
    memset(x.data, 0xff, elements * dtype_bytes(type)); /* no numbers: what isn't written is seen */
    return x;
}

static op_arg sample_of(const op_arg *x, int64_t b) {
    int64_t n = shape_elements(&x->shape) / x->shape.dim[0];
    return (op_arg){ (char *)x->data + (size_t)(b * n) * dtype_bytes(x->dtype), SHAPE(n), x->dtype };
}

/* Sample b has what sample first + b of any batch has. */
static void fill(made *m, int64_t first) {
    for (int64_t b = 0; b < m->batch; b++) {
        uint64_t seed = 1000 * (uint64_t)(first + b);
        for (int i = Q; i <= DY; i++) {
            if (!m->operand[i].data) continue;
            op_arg x = sample_of(&m->operand[i], b);
            harness_fill(&x, -1, 1, seed + (uint64_t)i);
        }
        harness_fill(&(op_arg){ m->lengths + b, SHAPE(1), DTYPE_I32 }, 1, (double)m->keys + 1, seed + 5);
        harness_fill(&(op_arg){ m->segments + b * m->f->queries, SHAPE(m->f->queries), DTYPE_I32 }, 0, 3,
                     seed + 6);
    }
}

static made made_new(const attention *op, const form *f, int64_t first, int64_t batch) {
    const attention_attributes *a = &f->attributes;
    made m = {
        .op = op, .f = f, .batch = batch, .keys = f->keys ? f->keys : f->queries, .offset = { f->offset }
    };
    int64_t kv = (a->kv_heads ? a->kv_heads : a->heads) * f->size, width = a->heads * f->size;
    for (int i = Q; i < OPERANDS; i++) {
        bool of_keys = i == K || i == V || i == DK || i == DV, packed = !f->keys && (i == Q || i == DQ);
        if (of_keys && !f->keys) continue;
        m.operand[i] = operand_new(batch, of_keys ? f->keys : f->queries,
                                   of_keys ? kv : width + (packed ? 2 * kv : 0), DTYPE_BF16);
    }
    memory_free(m.operand[KEPT].data);
    m.operand[KEPT] = operand_new(batch, a->heads, f->queries * (op->probs ? m.keys : 1), DTYPE_F32);
    if (op->probs) m.operand[KEPT].shape = SHAPE(batch, a->heads, f->queries, m.keys);
    m.lengths = memory_new((uint64_t)batch, sizeof *m.lengths);
    m.segments = memory_new((uint64_t)(batch * f->queries), sizeof *m.segments);
    assert_true(m.lengths && m.segments);
    m.key = (philox_key){ 11, 22, 33, (uint32_t)first };
    fill(&m, first);
    return m;
}

static void made_free(made *m) {
    for (int i = Q; i < OPERANDS; i++) memory_free(m->operand[i].data);
    memory_free(m->lengths);
    memory_free(m->segments);
}

static void add_sides(const made *m, op_arg *in) {
    const form *f = m->f;
    if (f->lengths) in[0] = (op_arg){ m->lengths, SHAPE(m->batch), DTYPE_I32 };
    if (f->segments) in[1] = (op_arg){ m->segments, SHAPE(m->batch, f->queries), DTYPE_I32 };
    if (f->shifted) in[2] = (op_arg){ (void *)m->offset, SHAPE(1), DTYPE_I32 };
    in[3] = (op_arg){ (void *)&m->key, SHAPE(4), DTYPE_I32 };
}

static void run(const made *m, const op_kernel *kernels, op_call *c, const matmul_kernel *kernel) {
    c->attributes = &m->f->attributes;
    matmul_kernel_choose(kernel);
    assert_true(harness_run_kernel(kernels, c));
    matmul_kernel_choose(NULL);
}

static void forward(const made *m, const matmul_kernel *kernel) {
    op_arg in[8] = { m->operand[Q], m->operand[K], m->operand[V] },
           out[] = { m->operand[Y], m->operand[KEPT] };
    add_sides(m, in + 3);
    run(m, m->op->forward, &(op_call){ .in = in, .out = out, .in_count = 8, .out_count = 2 }, kernel);
}

/* Flash attention reads y as well. */
static void backward(const made *m, const matmul_kernel *kernel) {
    op_arg in[11] = { m->operand[Q], m->operand[K], m->operand[V] };
    op_arg out[] = { m->operand[DQ], m->operand[DK], m->operand[DV] };
    int at = 3;
    if (!m->op->probs) in[at++] = m->operand[Y];
    in[at++] = m->operand[KEPT], in[at++] = m->operand[DY];
    add_sides(m, in + at);
    op_call c = { .in = in, .out = out, .in_count = (uint16_t)(at + 5), .out_count = m->f->keys ? 3 : 1 };
    run(m, m->op->backward, &c, kernel);
}

static made ran(const attention *op, const form *f, int64_t first, int64_t batch,
                const matmul_kernel *kernel) {
    made m = made_new(op, f, first, batch);
    forward(&m, kernel);
    backward(&m, kernel);
    return m;
}

static void assert_same(const form *f, const op_arg *is, const op_arg *should, int operand) {
    if (!should->data) return;
    uint64_t bytes = (uint64_t)shape_elements(&should->shape) * dtype_bytes(should->dtype);
    if (memcmp(is->data, should->data, bytes)) fail_msg("%s: other bits in operand %d", f->name, operand);
}

/* ---- kernels ---- */

/* Attention has no other pairs than those of tiles. */
static const matmul_kernel *const widened = &matmul_kernel_avx512_bf16_twin;

static const matmul_kernel *fastest(void) {
#if defined(__x86_64__)
    if (instructions_present(INSTRUCTIONS_AMX)) return &matmul_kernel_amx;
#endif
    return &matmul_kernel_amx_twin;
}

static void tiles_are_their_twins(void **state) {
    const attention *op = *state;
    (void)op;
#if defined(__x86_64__)
    if (!instructions_present(INSTRUCTIONS_AMX))
        tile_trap_set(); /* cmocka has set its own before each test */
    for (int i = 0; i < FORMS; i++) {
        made is = ran(op, &forms[i], 0, forms[i].batch, &matmul_kernel_amx);
        made should = ran(op, &forms[i], 0, forms[i].batch, &matmul_kernel_amx_twin);
        for (int o = Y; o < OPERANDS; o++) assert_same(&forms[i], &is.operand[o], &should.operand[o], o);
        made_free(&is);
        made_free(&should);
    }
    assert_false(tile_trap_unlike);
#endif
}

static double number(const op_arg *x, int64_t i) {
    return x->dtype == DTYPE_F32 ? (double)((const float *)x->data)[i]
                                 : (double)half_from_bf16(((const uint16_t *)x->data)[i]);
}

static void assert_close(const form *f, const op_arg *is, const op_arg *should, int operand) {
    int64_t n = should->data ? shape_elements(&should->shape) : 0;
    double largest = 0.1, tolerance = should->dtype == DTYPE_F32 ? 1e-5 : 0x1p-6;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(number(should, i)));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(number(is, i) - number(should, i)) <= tolerance * largest))
            fail_msg("%s, operand %d: element %lld is %g, should be %g (largest %g)", f->name, operand,
                     (long long)i, number(is, i), number(should, i), largest);
}

static void results_are_those_of_widened_ones(void **state) {
    const attention *op = *state;
    for (int i = 0; i < FORMS; i++) {
        made is = ran(op, &forms[i], 0, forms[i].batch, fastest());
        made should = ran(op, &forms[i], 0, forms[i].batch, widened);
        for (int o = Y; o < OPERANDS; o++) assert_close(&forms[i], &is.operand[o], &should.operand[o], o);
        made_free(&is);
        made_free(&should);
    }
}

static void threads_change_no_bit(void **state) {
    const attention *op = *state;
    for (int i = 0; i < FORMS; i++) {
        threads_set(1);
        made one = ran(op, &forms[i], 0, forms[i].batch, fastest());
        for (int threads = 2; threads <= 8; threads += 3) {
            threads_set(threads);
            made many = ran(op, &forms[i], 0, forms[i].batch, fastest());
            for (int o = Y; o < OPERANDS; o++) assert_same(&forms[i], &many.operand[o], &one.operand[o], o);
            made_free(&many);
        }
        made_free(&one);
    }
    threads_set(1);
}

static void a_sample_is_the_same_alone(void **state) {
    const attention *op = *state;
    threads_set(2);
    for (int i = 0; i < FORMS; i++) {
        made all = ran(op, &forms[i], 0, 3, fastest());
        for (int64_t b = 0; b < 3; b++) {
            made one = ran(op, &forms[i], b, 1, fastest());
            for (int o = Y; o < OPERANDS; o++) {
                if (!all.operand[o].data) continue;
                op_arg should = sample_of(&all.operand[o], b);
                op_arg is = sample_of(&one.operand[o], 0);
                assert_same(&forms[i], &is, &should, o);
            }
            made_free(&one);
        }
        made_free(&all);
    }
    threads_set(1);
}

/* Keys behind the last one that a query sees are not there yet: NaN. */
static void a_query_is_the_same_alone(void **state) {
    const attention *op = *state;
    enum { LENGTH = 140, WIDTH = 40, KEYS = 20, SIZE = 10 };
    static const form whole = {
        "whole", { .heads = 4, .kv_heads = 2, .causal = 1 }, 1, LENGTH, LENGTH, SIZE, false, false, false, 0
    };
    form alone = whole;
    alone.name = "alone", alone.queries = 1, alone.shifted = true;
    made all = made_new(op, &whole, 0, 1), one = made_new(op, &alone, 0, 1);
    forward(&all, fastest());
    for (int o = K; o <= V; o++) memset(one.operand[o].data, 0xff, LENGTH * KEYS * sizeof(uint16_t));
    for (int32_t t = 0; t < LENGTH; t++) {
        one.offset[0] = t;
        memcpy(one.operand[Q].data, (uint16_t *)all.operand[Q].data + t * WIDTH, WIDTH * sizeof(uint16_t));
        for (int o = K; o <= V; o++)
            memcpy((uint16_t *)one.operand[o].data + t * KEYS, (uint16_t *)all.operand[o].data + t * KEYS,
                   KEYS * sizeof(uint16_t));
        forward(&one, fastest());
        if (memcmp(one.operand[Y].data, (uint16_t *)all.operand[Y].data + t * WIDTH,
                   WIDTH * sizeof(uint16_t)))
            fail_msg("query %d has other bits alone", t);
    }
    made_free(&all);
    made_free(&one);
}

/* ---- plans ---- */

static uint64_t scratch_of(const op_kernel *k, int64_t length, int64_t size, dtype type, int threads) {
    attention_attributes a = { .heads = 2, .causal = 1, .dropout = 0.1f };
    op_arg in[11] = { { NULL, SHAPE(3, length, 6 * size), type } };
    op_arg out[2] = { { NULL, SHAPE(3, length, 6 * size), type } };
    op_call c = { .in = in, .out = out, .in_count = 11, .out_count = 1, .attributes = &a };
    return k->scratch(&c, threads);
}

static void plans_do_not_see_the_way(void **state) {
    const attention *op = *state;
    const op_kernel *kernels[] = { op->forward, op->backward };
    int64_t least = op->probs ? 64 : 32;
    for (int i = 0; i < 2; i++)
        for (int64_t length = 1; length <= 1000; length = length * 3 + 1)
            for (int64_t size = 8; size <= 264; size *= 2) {
                matmul_kernel_choose(&matmul_kernel_amx_twin);
                uint64_t bytes = scratch_of(kernels[i], length, size, DTYPE_BF16, 2);
                matmul_kernel_choose(widened);
                assert_true(bytes == scratch_of(kernels[i], length, size, DTYPE_BF16, 2));
                /* widened heads need as much as forms of tiles, but for the shortest */
                uint64_t wide = scratch_of(kernels[i], length, size, DTYPE_F16, 2);
                assert_true(bytes >= wide && (length < 64 || size < least || bytes == wide));
            }
    matmul_kernel_choose(NULL);
}

#define TEST(name, op)                                                                                       \
    { #name ", " #op, name, NULL, NULL, (void *)&op }
#define OF_BOTH(name) TEST(name, flash), TEST(name, plain)

int main(void) {
    const struct CMUnitTest tests[] = {
        OF_BOTH(tiles_are_their_twins),     OF_BOTH(results_are_those_of_widened_ones),
        OF_BOTH(threads_change_no_bit),     OF_BOTH(a_sample_is_the_same_alone),
        OF_BOTH(a_query_is_the_same_alone), OF_BOTH(plans_do_not_see_the_way),
    };
    return cmocka_run_group_tests_name("attention in pairs", tests, NULL, NULL);
}
