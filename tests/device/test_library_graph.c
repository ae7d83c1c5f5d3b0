/* The graph of operations that device/library_attention.c has cuDNN carry out is attention and its gradient:
 * a stand-in (standin/cudnn_standin.c) carries it out number by number, on packed, grouped and separate
 * heads, and a plain reference in f64 has the same numbers but for the rounding of 16 bits. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/half.h"
#include "device/cuda/emulate_stream.h"
#include "device/library_attention.h"

/* ---- a device that does what it is given at once ---- */

enum { POOL = 1 << 21 };
static struct {
    char *begin;
    uint64_t used;
} pool;

static void give(emulated_stream *s, bool (*function)(void *), const void *context, uint64_t bytes) {
    void *copy = malloc(bytes);
    (void)s;
    assert_non_null(copy);
    memcpy(copy, context, bytes);
    assert_true(function(copy));
    free(copy);
}

static bool is_in_pool(const void *at, uint64_t bytes) {
    const char *begin = at;
    return begin >= pool.begin && begin + bytes <= pool.begin + POOL;
}

static void *take(int64_t bytes) {
    void *at = pool.begin + pool.used;
    pool.used += ((uint64_t)bytes + 255) / 256 * 256;
    assert_true(pool.used <= POOL);
    return at;
}

/* ---- attention of one call, beside its reference ---- */

/* A matrix of rows of heads: element (row, head, d) is data[row * step + head * size + d]. */
typedef struct {
    uint16_t *data;
    int64_t step;
} rows;

typedef struct {
    library_attention p;
    rows q, k, v, y, dy, dq, dk, dv;
    float *logarithms;
    float scale;
    double furthest[6]; /* of y, logarithms, dq, dk and dv from the reference; [5]: the largest of these */
} attention;

static double get(const attention *a, const rows *x, int64_t row, int64_t head, int64_t d) {
    uint16_t bits = x->data[row * x->step + head * a->p.size + d];
    return (double)(a->p.type == DTYPE_BF16 ? half_from_bf16(bits) : half_from_f16(bits));
}

static rows make_rows(int64_t count, int64_t step) { return (rows){ take(2 * count * step), step }; }

static void fill(const attention *a, const rows *x, int64_t count, uint32_t *random) {
    for (int64_t i = 0; i < count * x->step; i++) {
        *random = *random * 1664525u + 1013904223u;
        float number = (float)(*random >> 8) / (float)(1 << 23) - 1;
        x->data[i] = a->p.type == DTYPE_BF16 ? half_to_bf16(number) : half_to_f16(number);
    }
}

static void open_attention(attention *a, uint32_t *random) {
    const library_attention *p = &a->p;
    int64_t width = p->heads * p->size, kv = p->kv_heads * p->size, all = width + 2 * kv;
    int64_t queries = p->batch * p->queries, keys = p->batch * p->keys;
    pool.used = 0;
    a->q = make_rows(queries, p->packed ? all : width), a->dq = make_rows(queries, a->q.step);
    if (p->packed) {
        a->k = (rows){ a->q.data + width, all }, a->v = (rows){ a->k.data + kv, all };
        a->dk = (rows){ a->dq.data + width, all }, a->dv = (rows){ a->dk.data + kv, all };
    } else {
        a->k = make_rows(keys, kv), a->v = make_rows(keys, kv);
        a->dk = make_rows(keys, kv), a->dv = make_rows(keys, kv);
        fill(a, &a->k, keys, random), fill(a, &a->v, keys, random);
    }
    fill(a, &a->q, queries, random);
    a->y = make_rows(queries, width), a->dy = make_rows(queries, width);
    fill(a, &a->dy, queries, random);
    a->logarithms = take(4 * queries * p->heads);
}

static void run(attention *a, int32_t gradient) {
    library_algorithm way;
    library_attention p = a->p;
    p.gradient = gradient;
    assert_int_equal(library_attention_choose(&p, &way), LIBRARY_ATTENTION_MAKES);
    assert_int_equal(library_attention_prepare(&p, &way), STATUS_OK);
    uint64_t used = pool.used, scratch = library_attention_scratch(&p, &way);
    char *at = (char *)take((int64_t)scratch + 64) + 64; /* as a plan places it */
    library_attention_operands operands = { .q = a->q.data,
                                            .k = a->k.data,
                                            .v = a->v.data,
                                            .dy = a->dy.data,
                                            .y = a->y.data,
                                            .logarithms = a->logarithms,
                                            .dq = a->dq.data,
                                            .dk = a->dk.data,
                                            .dv = a->dv.data,
                                            .scratch = at,
                                            .scale = a->scale };
    memset(at + scratch, 0x5a, 64);
    library_attention_run(&p, &way, &operands);
    assert_int_equal(library_attention_failed(), STATUS_OK);
    for (int i = 0; i < 64; i++) assert_int_equal(at[scratch + (uint64_t)i], 0x5a);
    pool.used = used;
}

static void differ(attention *a, int which, double found, double expected) {
    double away = fabs(found - expected);
    if (!(away <= a->furthest[which])) a->furthest[which] = away; /* NaN comes through */
    if (!(away <= a->furthest[5])) a->furthest[5] = away;
}

enum { MOST_KEYS = 64, MOST_NUMBERS = 4096 };

/* The gradients of keys and values, which several heads and all queries add to. */
static struct { double k[MOST_NUMBERS], v[MOST_NUMBERS]; } sums;

static void compare_query(attention *a, int64_t sample, int64_t head, int64_t query) {
    const library_attention *p = &a->p;
    int64_t row = sample * p->queries + query, shared = head / (p->heads / p->kv_heads);
    double scores[MOST_KEYS], top = -INFINITY, sum = 0, dot = 0;
    for (int64_t s = 0; s < p->keys; s++) {
        scores[s] = p->causal && s > query ? -INFINITY : 0;
        for (int64_t d = 0; d < p->size; d++)
            scores[s] += (double)a->scale * get(a, &a->q, row, head, d) *
                         get(a, &a->k, sample * p->keys + s, shared, d);
        top = fmax(top, scores[s]);
    }
    for (int64_t s = 0; s < p->keys; s++) sum += exp(scores[s] - top);
    double logarithm = top + log(sum);
    differ(a, 1, (double)a->logarithms[(sample * p->heads + head) * p->queries + query], logarithm);
    for (int64_t d = 0; d < p->size; d++) {
        double y = 0;
        for (int64_t s = 0; s < p->keys; s++)
            y += exp(scores[s] - logarithm) * get(a, &a->v, sample * p->keys + s, shared, d);
        differ(a, 0, get(a, &a->y, row, head, d), y);
        dot += y * get(a, &a->dy, row, head, d);
    }
    double dq[MOST_KEYS] = { 0 };
    for (int64_t s = 0; s < p->keys; s++) {
        int64_t key = sample * p->keys + s;
        double share = exp(scores[s] - logarithm), slope = 0;
        for (int64_t d = 0; d < p->size; d++)
            slope += get(a, &a->dy, row, head, d) * get(a, &a->v, key, shared, d);
        slope = share * (slope - dot) * (double)a->scale;
        for (int64_t d = 0; d < p->size; d++) {
            int64_t at = (key * p->kv_heads + shared) * p->size + d;
            dq[d] += slope * get(a, &a->k, key, shared, d);
            sums.k[at] += slope * get(a, &a->q, row, head, d);
            sums.v[at] += share * get(a, &a->dy, row, head, d);
        }
    }
    for (int64_t d = 0; d < p->size; d++) differ(a, 2, get(a, &a->dq, row, head, d), dq[d]);
}

static void compare(attention *a) {
    const library_attention *p = &a->p;
    assert_true(p->keys <= MOST_KEYS && p->size <= MOST_KEYS &&
                p->batch * p->keys * p->kv_heads * p->size <= MOST_NUMBERS);
    memset(&sums, 0, sizeof sums);
    for (int64_t i = 0; i < p->batch * p->heads * p->queries; i++)
        compare_query(a, i / p->queries / p->heads, i / p->queries % p->heads, i % p->queries);
    for (int64_t row = 0; row < p->batch * p->keys; row++)
        for (int64_t i = 0; i < p->kv_heads * p->size; i++) {
            int64_t head = i / p->size, d = i % p->size, at = row * p->kv_heads * p->size + i;
            differ(a, 3, get(a, &a->dk, row, head, d), sums.k[at]);
            differ(a, 4, get(a, &a->dv, row, head, d), sums.v[at]);
        }
}

/* batch, queries, keys, heads, kv_heads, size, type, causal, packed */
static const library_attention cases[] = {
    { 2, 8, 8, 2, 2, 16, DTYPE_BF16, 1, 1, 0 },   { 2, 8, 8, 2, 2, 16, DTYPE_F16, 0, 1, 0 },
    { 2, 12, 12, 4, 2, 8, DTYPE_F16, 1, 0, 0 },   { 1, 12, 12, 6, 2, 8, DTYPE_BF16, 1, 1, 0 },
    { 2, 5, 9, 4, 2, 24, DTYPE_F16, 0, 0, 0 },    { 2, 7, 7, 3, 1, 8, DTYPE_F16, 1, 1, 0 },
    { 1, 33, 33, 2, 2, 32, DTYPE_BF16, 1, 0, 0 }, { 3, 1, 1, 1, 1, 8, DTYPE_F16, 1, 1, 0 },
};

static void graphs_are_attention(void **state) {
    static const char *const names[] = { "y", "the logarithms", "dq", "dk", "dv" };
    uint32_t random = 7;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attention a = { .p = cases[i], .scale = 0.37f };
        double allowed = a.p.type == DTYPE_BF16 ? 0.02 : 0.003;
        open_attention(&a, &random);
        run(&a, 0), run(&a, 1);
        compare(&a);
        for (int k = 0; k < 5; k++)
            if (!(a.furthest[k] <= (k == 1 ? 1e-5 : allowed)))
                fail_msg("case %zu: %s is %g away", i, names[k], a.furthest[k]);
        assert_true(a.furthest[5] > 0); /* 16 bits were rounded to */
    }
}

/* What was not prepared is not run, and what does not begin where it may is not either. */
static void what_cannot_run_is_said(void **state) {
    library_attention p = { 1, 4, 4, 1, 1, 8, DTYPE_F16, 1, 1, 0 };
    library_algorithm way = { { 0 }, 0 };
    char *at = pool.begin;
    (void)state;
    assert_int_equal(library_attention_prepare(&p, &way), STATUS_INVALID);
    assert_int_equal(library_attention_choose(&p, &way), LIBRARY_ATTENTION_MAKES);
    way.words[0]++;
    assert_int_equal(library_attention_prepare(&p, &way), STATUS_INVALID);
    way.words[0]--;
    assert_int_equal(library_attention_prepare(&p, &way), STATUS_OK);
    assert_int_equal(library_attention_failed(), STATUS_OK);
    library_attention_operands operands = {
        .q = at + 8, .k = at, .v = at, .y = at, .logarithms = at, .scratch = at
    };
    library_attention_run(&p, &way, &operands);
    assert_int_equal(library_attention_failed(), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "does not begin at a multiple of 16 bytes"));
}

static int open_all(void **state) {
    static emulated_stream stream = { give, is_in_pool };
    (void)state;
    pool.begin = aligned_alloc(4096, POOL);
    return pool.begin && library_attention_open(&stream, true) == STATUS_OK ? 0 : -1;
}

static int close_all(void **state) {
    (void)state;
    free(pool.begin);
    return 0;
}

/* The stand-in is found by this program's environment, which is read when it begins. */
int main(int count, char **words) {
    (void)count;
    if (!getenv("LD_LIBRARY_PATH") || strcmp(getenv("LD_LIBRARY_PATH"), SNUG_BUILD "/standin") != 0) {
        setenv("LD_LIBRARY_PATH", SNUG_BUILD "/standin", 1);
        execv("/proc/self/exe", words);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_attention),
        cmocka_unit_test(what_cannot_run_is_said),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
