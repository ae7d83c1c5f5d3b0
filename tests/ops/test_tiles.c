/* Kernels in tiles as they were compiled, on processors with them and, by a trap, without: the bits of their
 * twins in plain C. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/instructions.h"

#if defined(__x86_64__)

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"
#include "tile_trap.h"

static uint32_t word_at(uint32_t stream, int64_t i) {
    return philox_draw(12, (philox_block){ { (uint32_t)(i / 4), stream, 0, 0 } }).word[i % 4];
}

static void *room(int64_t n, size_t bytes) {
    void *x = aligned_alloc(64, ((size_t)n * bytes + 63) / 64 * 64);
    assert_non_null(x);
    return x;
}

/* ---- bf16 ---- */

static float *product_by(const matmul_problem *p, const matmul_kernel *kernel) {
    matmul_problem q = *p;
    void *scratch = room((int64_t)matmul_packed_scratch(p, false, threads_count()), 1);
    q.y = room(p->rows * p->columns, sizeof(float));
    matmul_kernel_choose(kernel);
    matmul_packed_run(&q, scratch);
    matmul_kernel_choose(NULL);
    free(scratch);
    return q.y;
}

static void products_of_bf16_are_the_twins(void **state) {
    static const int64_t sizes[][3] = { { 1, 1, 1 },     { 16, 16, 32 },  { 17, 33, 65 },
                                        { 40, 70, 300 }, { 33, 32, 257 }, { 65, 100, 31 } };
    (void)state;
    if (!instructions_present(INSTRUCTIONS_AVX512)) skip();
    if (!instructions_present(INSTRUCTIONS_AMX))
        tile_trap_set(); /* cmocka has set its own before each test */
    for (size_t k = 0; k < 4 * sizeof sizes / sizeof *sizes; k++) {
        int64_t rows = sizes[k / 4][0], columns = sizes[k / 4][1], depth = sizes[k / 4][2];
        bool ta = k & 1, tb = k & 2;
        uint16_t *a = room(rows * depth, 2), *b = room(columns * depth, 2);
        for (int64_t i = 0; i < rows * depth; i++) a[i] = half_to_bf16(philox_uniform(word_at(1, i)) - 0.5f);
        for (int64_t i = 0; i < columns * depth; i++)
            b[i] = half_to_bf16(philox_uniform(word_at(2, i)) - 0.5f);
        matmul_problem p = { .rows = rows,
                             .columns = columns,
                             .depth = depth,
                             .a = { a, ta ? rows : depth, ta, DTYPE_BF16 },
                             .b = { b, tb ? depth : columns, !tb, DTYPE_BF16 },
                             .type = DTYPE_F32 };
        threads_set(1 + (int)k % 3);
        float *is = product_by(&p, &matmul_kernel_amx), *should = product_by(&p, &matmul_kernel_amx_twin);
        assert_memory_equal(is, should, (size_t)(rows * columns) * sizeof *is);
        free(is);
        free(should);
        free(a);
        free(b);
    }
    threads_set(1);
    assert_false(tile_trap_unlike);
}

/* ---- codes ---- */

enum { LINES = MATMUL_INT8_ROWS, COLUMNS = MATMUL_INT8_COLUMNS, MOST_FOURS = 64 };

static void check_codes(const uint32_t *a, const uint32_t *b, int64_t fours, int64_t rows) {
    static int32_t start[COLUMNS] __attribute__((aligned(64)));
    static int32_t is[MATMUL_INT8_BLOCK_ROWS * COLUMNS] __attribute__((aligned(64))),
        should[MATMUL_INT8_BLOCK_ROWS * COLUMNS] __attribute__((aligned(64)));
    const matmul_int8_kernel *amx = &matmul_int8_kernel_amx, *plain = &matmul_int8_kernel_portable;
    uint32_t *arranged = room(fours * COLUMNS, sizeof *arranged);
    memcpy(arranged, b, (size_t)(fours * COLUMNS) * sizeof *arranged);
    for (int j = 0; j < COLUMNS; j++) start[j] = (int32_t)word_at(3, j);
    amx->arrange(fours, arranged);
    amx->begin();
    amx->block(fours, rows, a, arranged, start, is);
    amx->end();
    for (int64_t row = 0; row < rows; row += LINES)
        plain->block(fours, rows - row < LINES ? rows - row : LINES, a + row * fours, b, start,
                     should + row * COLUMNS);
    assert_memory_equal(is, should, (size_t)(rows * COLUMNS) * sizeof *is);
    free(arranged);
}

static void products_of_codes_are_those_of_plain_c(void **state) {
    (void)state;
    if (!instructions_present(INSTRUCTIONS_AVX512)) skip();
    if (!instructions_present(INSTRUCTIONS_AMX))
        tile_trap_set(); /* cmocka has set its own before each test */
    uint32_t *a = room(2 * LINES * MOST_FOURS, sizeof *a), *b = room(COLUMNS * MOST_FOURS, sizeof *b);
    for (int64_t i = 0; i < 2 * LINES * MOST_FOURS; i++) a[i] = word_at(4, i);
    for (int64_t i = 0; i < COLUMNS * MOST_FOURS; i++) b[i] = word_at(5, i);
    for (int64_t fours = MATMUL_INT8_FILL; fours <= MOST_FOURS; fours += MATMUL_INT8_FILL)
        for (int64_t rows = 1; rows <= MATMUL_INT8_BLOCK_ROWS; rows++) check_codes(a, b, fours, rows);
    free(a);
    free(b);
    assert_false(tile_trap_unlike);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_bf16_are_the_twins),
        cmocka_unit_test(products_of_codes_are_those_of_plain_c),
    };
    return cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
}

#else

int main(void) { return 0; }

#endif
