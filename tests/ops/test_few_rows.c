/* Products of few rows read b where it lies, by ways of their own for each width: an element has the bits
 * that it has among many rows, from every set of instructions and on any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "ops/matmul/matmul_stream.h"
#include "ops/nf4.h"

enum { ROWS = MATMUL_STREAM_ROWS + 1 /* too many to be few */ };

static const struct {
    const char *name;
    dtype a, b, y;
    bool by_rows;
} types[] = {
    { "f32", DTYPE_F32, DTYPE_F32, DTYPE_F32, false },
    { "bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_F32, false },
    { "bf16 to bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, false },
    { "f32 by bf16", DTYPE_F32, DTYPE_BF16, DTYPE_F32, false },
    { "f32 by f16", DTYPE_F32, DTYPE_F16, DTYPE_F32, false },
    { "f16", DTYPE_F16, DTYPE_F16, DTYPE_F16, false },
    { "codes of 8 bits, by columns", DTYPE_F32, DTYPE_I8, DTYPE_F32, false },
    { "codes of 8 bits, by rows", DTYPE_BF16, DTYPE_I8, DTYPE_F32, true },
    { "codes of 4 bits", DTYPE_F32, DTYPE_U8, DTYPE_F32, false },
};
enum { TYPES = sizeof types / sizeof *types };

/* columns, depth: around panels, vectors, slices, bands and squares; more columns than a range has; three
 * slices, of which two threads share one. */
static const int64_t sizes[][2] = { { 2, 2 },     { 32, 256 },  { 64, 130 },  { 96, 264 },   { 70, 600 },
                                    { 1090, 64 }, { 2080, 34 }, { 384, 770 }, { 160, 1024 }, { 96, 768 } };
enum { SIZES = sizeof sizes / sizeof *sizes };

static float drawn(uint32_t stream, int64_t i) {
    return philox_uniform(philox_draw(5, (philox_block){ { (uint32_t)i, stream, 0, 0 } }).word[0]) - 0.5f;
}

/* Zeroed and aligned to 64; `raw` is to be freed. */
static void *room(int64_t bytes, void **raw) {
    *raw = memory_new((size_t)bytes + 64, 1);
    assert_non_null(*raw);
    return (char *)*raw + (64 - (uintptr_t)*raw % 64);
}

static void *numbers(dtype type, int64_t n, uint32_t stream, void **raw) {
    char *x = room(n * 4, raw);
    for (int64_t i = 0; i < n; i++) {
        float value = drawn(stream, i);
        uint16_t half = type == DTYPE_F16 ? half_to_f16(value) : half_to_bf16(value);
        if (type == DTYPE_F32) memcpy(x + i * 4, &value, 4);
        if (dtype_is_half(type)) memcpy(x + i * 2, &half, 2);
        if (type == DTYPE_I8) x[i] = (char)(int8_t)(value * 254);
        if (type == DTYPE_U8) x[i / 2] = (char)(x[i / 2] | ((int)(16 * (value + 0.5f)) << 4 * (i % 2)));
    }
    return x;
}

typedef struct {
    matmul_problem problem;
    int64_t y_bytes;
    void *raw[6];
} product;

static product product_new(int type, int64_t columns, int64_t depth, bool tb) {
    product p = { .y_bytes = ROWS * columns * matmul_bytes(types[type].y) };
    int64_t lines = tb ? columns : depth, width = tb ? depth : columns;
    matmul_operand b = { .data = numbers(types[type].b, lines * width, 2, &p.raw[0]),
                         .stride = width,
                         .across = !tb,
                         .type = types[type].b,
                         .by_rows = types[type].by_rows };
    b.scales = numbers(DTYPE_F32, lines * nf4_blocks(width) + width, 3, &p.raw[1]);
    matmul_operand a = { .data = numbers(types[type].a, ROWS * depth, 1, &p.raw[2]),
                         .stride = depth,
                         .type = types[type].a };
    p.problem = (matmul_problem){ .rows = ROWS,
                                  .columns = columns,
                                  .depth = depth,
                                  .a = a,
                                  .b = b,
                                  .bias = numbers(DTYPE_F32, columns, 4, &p.raw[3]),
                                  .bias_type = DTYPE_F32,
                                  .residual = numbers(types[type].y, ROWS * columns, 5, &p.raw[4]),
                                  .y = room(p.y_bytes, &p.raw[5]),
                                  .type = types[type].y };
    return p;
}

static void product_free(product *p) {
    for (int i = 0; i < 6; i++) memory_free(p->raw[i]);
}

/* Scratch begins as NaN, and nothing beyond it may change. */
static void run(const matmul_problem *p) {
    enum { WALL = 64 };
    void *raw;
    uint64_t bytes = matmul_packed_scratch(p, p->residual != NULL, threads_count());
    unsigned char *scratch = room((int64_t)bytes + WALL, &raw);
    memset(scratch, 0xFF, bytes);
    memset(scratch + bytes, 0xA5, WALL);
    matmul_packed_run(p, scratch);
    for (int i = 0; i < WALL; i++) assert_int_equal(scratch[bytes + (unsigned)i], 0xA5);
    memory_free(raw);
}

/* The first `rows` rows by themselves, beside what they are among all. */
static void check_rows(const product *p, int64_t rows, const void *should, const char *what) {
    matmul_problem few = p->problem;
    int64_t bytes = rows * few.columns * matmul_bytes(few.type);
    few.rows = rows;
    memset(few.y, 0xEE, (size_t)p->y_bytes);
    run(&few);
    if (memcmp(few.y, should, (size_t)bytes) != 0)
        fail_msg("%s: %lld rows of %lld, depth %lld, b %s", what, (long long)rows, (long long)few.columns,
                 (long long)few.depth, few.b.across ? "across" : "along");
    const unsigned char *rest = few.y;
    for (int64_t i = bytes; i < p->y_bytes; i++) assert_int_equal(rest[i], 0xEE);
}

static void check_kernel(const matmul_kernel *k, int type, int64_t columns, int64_t depth, bool tb) {
    static const int64_t rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 25, MATMUL_STREAM_ROWS };
    product p = product_new(type, columns, depth, tb);
    char what[128];
    matmul_kernel_choose(k);
    threads_set(1);
    run(&p.problem);
    void *should = memory_new((size_t)p.y_bytes, 1);
    assert_non_null(should);
    memcpy(should, p.problem.y, (size_t)p.y_bytes);
    snprintf(what, sizeof what, "%s by %s", types[type].name, k->name);
    for (int threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (threads == 1 || rows[i] < 3) check_rows(&p, rows[i], should, what);
    }
    threads_set(1);
    matmul_kernel_choose(NULL);
    memory_free(should);
    product_free(&p);
}

static bool fits(int type, int64_t columns, int64_t depth, bool tb) {
    return types[type].b != DTYPE_U8 || (tb ? depth : columns) % 2 == 0;
}

static void check_all(const matmul_kernel *const *kernels, bool pairs) {
    int tried = 0;
    for (const matmul_kernel *const *k = kernels; *k; k++) {
        if (!(*k)->available()) continue;
        for (int type = 0; type < TYPES; type++) {
            if (pairs && !matmul_in_pairs(types[type].a, types[type].b)) continue;
            for (int i = 0; i < SIZES * 2; i++)
                if (fits(type, sizes[i / 2][0], sizes[i / 2][1], i % 2))
                    check_kernel(*k, type, sizes[i / 2][0], sizes[i / 2][1], i % 2), tried++;
        }
    }
    if (!tried) skip();
}

/* f32 by its own ways; bf16 by bf16 as well, where instructions on pairs are pinned away. */
static void few_rows_have_the_bits_of_many(void **state) {
    (void)state;
    check_all(matmul_kernels, false);
}

static void few_rows_of_pairs_have_the_bits_of_many(void **state) {
    (void)state;
    check_all(matmul_kernels_pairs, true);
}

/* What the tests above are about is there: this processor's best way reads every width where it lies. */
static void all_widths_are_streamed(void **state) {
    (void)state;
    const matmul_kernel *best = matmul_kernel_chosen();
    if (best == &matmul_kernel_portable) skip();
    for (int type = 0; type < TYPES; type++) assert_true(best->streams(types[type].b));
    matmul_problem p = { .rows = 1, .columns = 64, .depth = 64 };
    assert_true(matmul_may_stream(&p));
    p.rows = ROWS;
    assert_false(matmul_may_stream(&p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_have_the_bits_of_many),
        cmocka_unit_test(few_rows_of_pairs_have_the_bits_of_many),
        cmocka_unit_test(all_widths_are_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
