/* Codes of 4 bits that are made while a file is read are those of its rows, whatever type these have; and of
 * a file that can't be read to its end none are made. Reads go through here (test_coded_files.wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "io/coded_files.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "ops/codes.h"
#include "ops/nf4.h"

enum { ROWS = 5, COLUMNS = 2 * NF4_BLOCK + 6, BLOCKS = 3, CODED = COLUMNS / 2 };

/* As a file of this type holds it, in `stored`, and as it is read back, in x. */
static void make_row(int r, dtype type, float x[COLUMNS], void *stored) {
    for (int i = 0; i < COLUMNS; i++) {
        uint16_t *half = stored;
        x[i] = (float)((r * 31 + i * i * 7) % 201 - 100) / (float)(8 + r);
        if (type == DTYPE_F32) ((float *)stored)[i] = x[i];
        if (type == DTYPE_BF16) x[i] = half_from_bf16(half[i] = half_to_bf16(x[i]));
        if (type == DTYPE_F16) x[i] = half_from_f16(half[i] = half_to_f16(x[i]));
    }
}

static void check(dtype type, const char *called) {
    static float x[ROWS][COLUMNS], scales[ROWS * BLOCKS], wide[ROWS * COLUMNS];
    static char stored[ROWS * COLUMNS * 4];
    static uint8_t codes[ROWS * CODED];
    uint64_t row_bytes = COLUMNS * dtype_bytes(type);
    for (int r = 0; r < ROWS; r++) make_row(r, type, x[r], stored + (uint64_t)r * row_bytes);
    safetensors_item item = { "w", called, SHAPE(ROWS, COLUMNS), .data = stored, .bytes = ROWS * row_bytes };
    safetensors s;
    if (safetensors_write("rows.safetensors", &item, 1) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(safetensors_open("rows.safetensors", &s), STATUS_OK);
    model_weight w = { .name = "w", .shape = SHAPE(ROWS, CODED), .data = codes, .type = DTYPE_U8 },
                 of = { .name = "w.scales", .shape = SHAPE(ROWS, BLOCKS), .data = scales, .type = DTYPE_F32 };
    memset(codes, 0xee, sizeof codes);
    memset(scales, 0xee, sizeof scales);
    assert_true(coded_files_has(&w) && !coded_files_has(&of));
    shape matrix = coded_files_shape(&w);
    assert_true(shape_equal(&matrix, &SHAPE(ROWS, COLUMNS)));
    if (coded_files_read(&s, safetensors_find(&s, "w"), &w, &of) != STATUS_OK)
        fail_msg("%s", status_message());
    safetensors_close(&s);
    coded_files_widen(&w, scales, wide);
    for (int r = 0; r < ROWS; r++) {
        uint8_t right[CODED];
        float right_scales[BLOCKS], again[COLUMNS];
        nf4_encode_row(x[r], COLUMNS, right, right_scales);
        nf4_decode(right, right_scales, 0, COLUMNS, again);
        assert_memory_equal(codes + r * CODED, right, CODED);
        assert_memory_equal(scales + r * BLOCKS, right_scales, sizeof right_scales);
        assert_memory_equal(wide + r * COLUMNS, again, sizeof again);
    }
}

static void codes_are_those_of_the_rows(void **state) {
    (void)state;
    check(DTYPE_F32, "F32");
    check(DTYPE_BF16, "BF16");
    check(DTYPE_F16, "F16");
}

/* ---- a disk that fails ---- */

static long reads, fails_at = -1; /* so far; the one that fails, -1: none */

ssize_t __real_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at) {
    if (reads++ != fails_at) return __real_pread(file, data, bytes, at);
    errno = EIO;
    return -1;
}

/* Of each kind of codes every read fails once: also where numbers are read twice, first for their scales. */
static void a_read_that_fails_is_said(void **state) {
    (void)state;
    static float x[ROWS][COLUMNS], scales[ROWS * COLUMNS];
    static char codes[ROWS * COLUMNS];
    char name[CODES_NAME_BYTES];
    for (int r = 0; r < ROWS; r++) make_row(r, DTYPE_F32, x[r], x[r]);
    codes_scales_name("w.weight", name);
    safetensors_item item = { "w.weight", "F32", SHAPE(ROWS, COLUMNS), .data = x, .bytes = sizeof x };
    assert_int_equal(safetensors_write("read.safetensors", &item, 1), STATUS_OK);
    for (int bits = 4; bits <= 8; bits += 4) {
        const model_weight weights[] = { { .name = "w.weight",
                                           .shape = SHAPE(ROWS, bits == 4 ? CODED : COLUMNS),
                                           .data = codes,
                                           .type = bits == 4 ? DTYPE_U8 : DTYPE_I8 },
                                         { .name = name,
                                           .shape = bits == 4 ? SHAPE(ROWS, BLOCKS) : SHAPE(COLUMNS),
                                           .data = scales,
                                           .type = DTYPE_F32 } };
        bool reached = true;
        long at = 0;
        for (; reached; at++) {
            reads = 0, fails_at = at;
            status result = model_files_load("read.safetensors", weights, 2);
            reached = reads > at;
            fails_at = -1;
            if (result != (reached ? STATUS_FAILED : STATUS_OK))
                fail_msg("%d bits: read %ld: %s", bits, at, status_message());
            if (reached && !strstr(status_message(), strerror(EIO))) fail_msg("%s", status_message());
        }
        assert_true(at > 4);
    }
}

/* The first number may be the one that a scale comes from. */
static void the_first_number_counts(void **state) {
    (void)state;
    static float x[ROWS][COLUMNS], scales[ROWS * COLUMNS];
    static int8_t codes[ROWS * COLUMNS];
    char name[CODES_NAME_BYTES];
    for (int r = 0; r < ROWS; r++) make_row(r, DTYPE_F32, x[r], x[r]);
    x[0][0] = 1000;
    codes_scales_name("w.weight", name);
    safetensors_item item = { "w.weight", "F32", SHAPE(ROWS, COLUMNS), .data = x, .bytes = sizeof x };
    assert_int_equal(safetensors_write("first.safetensors", &item, 1), STATUS_OK);
    const model_weight weights[] = {
        { .name = "w.weight", .shape = SHAPE(ROWS, COLUMNS), .data = codes, .type = DTYPE_I8 },
        { .name = name, .shape = SHAPE(COLUMNS), .data = scales, .type = DTYPE_F32 }
    };
    assert_int_equal(model_files_load("first.safetensors", weights, 2), STATUS_OK);
    assert_int_equal(codes[0], 127);
    assert_true(fabsf(127 * scales[0] - 1000) < 1e-2f);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(codes_are_those_of_the_rows),
                                        cmocka_unit_test(a_read_that_fails_is_said),
                                        cmocka_unit_test(the_first_number_counts) };
    return cmocka_run_group_tests_name("codes made while reading", tests, scratch_open, scratch_close);
}
