/* The loss of logits of 16 bits and its gradient by vectors (ops/cross_entropy/cross_entropy_halves.h): the
 * bits are those of widened rows, for rows of any length, numbers of all kinds and results anywhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/threads.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/fast.h"

enum { ROWS = 12 };
/* Around vectors, lanes, blocks, and parts that are stored past the caches. */
static const int64_t widths[] = { 1,   2,   31,  32,   33,   64,   127,  128,  129,  160,
                                  511, 512, 513, 2047, 2048, 2049, 4096, 4100, 6145, 9001 };
enum { WIDTHS = sizeof widths / sizeof *widths, MOST = 9001 * ROWS };

static uint16_t logits[MOST], held[MOST], should[MOST], is[MOST];
static int32_t labels[ROWS];
static float lse[2][ROWS], loss[2], scale = 0.125f, dloss = -0.75f;

static void *new_room(uint64_t bytes, void **raw) {
    *raw = memory_new(bytes + 64, 1);
    assert_non_null(*raw);
    return (char *)*raw + (64 - (uintptr_t)*raw % 64);
}

/* Runs the kernel of that name; false: the machine has no instructions for it. */
static bool run(const op_def *op, const char *suffix, op_call *c) {
    char name[64];
    void *raw;
    snprintf(name, sizeof name, "%s_cpu_%s", op->name, suffix);
    const op_kernel *k = op->cpu;
    while (k->name && strcmp(k->name, name) != 0) k++;
    assert_non_null(k->name);
    if (!k->accepts(c)) return false;
    c->scratch_bytes = k->scratch ? k->scratch(c, threads_count()) : 0;
    c->scratch = new_room(c->scratch_bytes, &raw);
    k->run(c);
    memory_free(raw);
    return true;
}

/* Rows of usual numbers; of numbers far apart; with infinities; of nothing but minus infinity; with NaN, at
 * the beginning and elsewhere; of any 16 bits; rising, so that each block has a larger one than those before.
 */
static uint16_t logit(dtype type, int64_t row, int64_t i) {
    uint32_t mixed = (uint32_t)(row * 9001 + i + 1) * 2654435761u;
    float usual = (float)(mixed >> 12 & 0xfff) * 0x1p-8f - 8, value = usual;
    if (row == 2) value = usual * 16;
    if (row == 3) value = usual - 100;
    if (row == 4 && i % 7 == 3) value = -INFINITY;
    if (row == 5 && i % 100 == 40) value = INFINITY;
    if (row == 6) value = -INFINITY;
    if (row == 7 && i % 1000 == 0) value = NAN;
    if (row == 8 && i % 1000 == 999) value = -NAN;
    if (row == 9) value = usual * 0x1p-120f;
    if (row == 10) return (uint16_t)(mixed >> 9);
    if (row == 11) value = usual + (float)i / 256;
    return type == DTYPE_F16 ? half_to_f16(value) : half_to_bf16(value);
}

static void fill(dtype type, int64_t classes) {
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t i = 0; i < classes; i++) logits[r * classes + i] = logit(type, r, i);
        labels[r] = (int32_t)(r == 1 ? CROSS_ENTROPY_IGNORE : r * 7919 % classes);
    }
}

static bool same(float a, float b) { return half_bits(a) == half_bits(b) || (a != a && b != b); }

static bool is_nan(dtype type, uint16_t x) { return (x & 0x7fff) > (type == DTYPE_F16 ? 0x7c00 : 0x7f80); }

static bool losses(const char *suffix, dtype type, int64_t classes, int which) {
    op_arg in[] = { { logits, SHAPE(ROWS, classes), type },
                    { labels, SHAPE(ROWS), DTYPE_I32 },
                    { &scale, SHAPE(1), DTYPE_F32 } };
    op_arg out[] = { { &loss[which], SHAPE(1), DTYPE_F32 }, { lse[which], SHAPE(ROWS), DTYPE_F32 } };
    op_call c = { .in = in, .out = out, .in_count = 3, .out_count = 2 };
    return run(&op_cross_entropy, suffix, &c);
}

static bool slopes(const char *suffix, dtype type, int64_t classes, uint16_t *x, uint16_t *dx) {
    op_arg in[] = { { x, SHAPE(ROWS, classes), type },
                    { labels, SHAPE(ROWS), DTYPE_I32 },
                    { &scale, SHAPE(1), DTYPE_F32 },
                    { lse[0], SHAPE(ROWS), DTYPE_F32 },
                    { &dloss, SHAPE(1), DTYPE_F32 } };
    op_arg out = { dx, SHAPE(ROWS, classes), type };
    op_call c = { .in = in, .out = &out, .in_count = 5, .out_count = 1 };
    return run(&op_cross_entropy_backward, suffix, &c);
}

static void compare_slopes(dtype type, int64_t classes, const char *how) {
    for (int64_t i = 0; i < ROWS * classes; i++)
        if (is[i] != should[i] && !(is_nan(type, is[i]) && is_nan(type, should[i])))
            fail_msg("%s, %s: the slope by %04x in row %lld of %lld is %04x, not %04x", dtype_name(type), how,
                     logits[i], (long long)(i / classes), (long long)classes, is[i], should[i]);
}

static void check(dtype type, int64_t classes) {
    fill(type, classes);
    assert_true(losses("widened", type, classes, 0));
    if (!losses("halves", type, classes, 1)) return;
    for (int r = 0; r < ROWS; r++)
        if (!same(lse[0][r], lse[1][r]))
            fail_msg("%s: row %d of %lld has %a, not %a", dtype_name(type), r, (long long)classes,
                     (double)lse[1][r], (double)lse[0][r]);
    assert_true(same(loss[0], loss[1]));
    lse[0][3] += 85; /* slopes become subnormal */
    assert_true(slopes("widened", type, classes, logits, should));
    assert_true(slopes("halves", type, classes, logits, is));
    compare_slopes(type, classes, "apart");
    memcpy(held, logits, sizeof held);
    assert_true(slopes("halves", type, classes, held, held));
    memcpy(is, held, sizeof is);
    compare_slopes(type, classes, "in place");
}

static void rows_have_the_bits_of_widened_ones(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        threads_set(threads);
        for (int w = 0; w < WIDTHS; w++) check(DTYPE_BF16, widths[w]), check(DTYPE_F16, widths[w]);
    }
    threads_set(1);
}

/* A gradient that no cache keeps, of rows that begin anywhere in a line: the same rows as a small one's. */
static void large_gradients_are_the_same(void **state) {
    (void)state;
    enum { CLASSES = 9001, MANY = FAST_CACHED / 2 / CLASSES / ROWS + 1 };
    void *raw_x, *raw_dx, *raw_lse, *raw_labels;
    const int64_t part = ROWS * CLASSES;
    uint16_t *x = new_room((uint64_t)(MANY * part) * 2, &raw_x),
             *dx = new_room((uint64_t)(MANY * part) * 2, &raw_dx);
    float *all_lse = new_room((uint64_t)(MANY * ROWS) * 4, &raw_lse);
    int32_t *all_labels = new_room((uint64_t)(MANY * ROWS) * 4, &raw_labels);
    fill(DTYPE_BF16, CLASSES);
    assert_true(losses("widened", DTYPE_BF16, CLASSES, 0));
    assert_true(slopes("widened", DTYPE_BF16, CLASSES, logits, should));
    for (int64_t k = 0; k < MANY; k++) {
        memcpy(x + k * part, logits, (size_t)part * 2), memcpy(all_lse + k * ROWS, lse[0], sizeof lse[0]);
        memcpy(all_labels + k * ROWS, labels, sizeof labels);
    }
    op_arg in[] = { { x, SHAPE(MANY * ROWS, CLASSES), DTYPE_BF16 },
                    { all_labels, SHAPE(MANY * ROWS), DTYPE_I32 },
                    { &scale, SHAPE(1), DTYPE_F32 },
                    { all_lse, SHAPE(MANY * ROWS), DTYPE_F32 },
                    { &dloss, SHAPE(1), DTYPE_F32 } };
    op_arg out = { dx, SHAPE(MANY * ROWS, CLASSES), DTYPE_BF16 };
    op_call c = { .in = in, .out = &out, .in_count = 5, .out_count = 1 };
    assert_true(fast_past_caches(&c));
    bool ran = run(&op_cross_entropy_backward, "halves", &c);
    for (int64_t k = 0; k < MANY && ran; k++) {
        memcpy(is, dx + k * part, (size_t)part * 2);
        compare_slopes(DTYPE_BF16, CLASSES, "past the caches");
    }
    memory_free(raw_x), memory_free(raw_dx), memory_free(raw_lse), memory_free(raw_labels);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_have_the_bits_of_widened_ones),
                                        cmocka_unit_test(large_gradients_are_the_same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
