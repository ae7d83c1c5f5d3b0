/* Weights that are held in another type than the file's are read part by part: of any length, every number is
 * there and none beyond. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/half.h"
#include "io/scratch.h"
#include "io/weight_files.h"

enum { MOST = 3 * WEIGHT_PART };

static float number(int64_t i) { return (float)(i % 251 - 125) / 64; } /* 16 bits hold it */

static void read_as(int64_t length, dtype from, const char *called, dtype to) {
    static float wide[MOST + 1];
    static uint16_t narrow[MOST + 1], read_narrow[MOST + 1];
    static float read_wide[MOST + 1];
    for (int64_t i = 0; i < length; i++) {
        wide[i] = number(i);
        narrow[i] = from == DTYPE_F16 ? half_to_f16(wide[i]) : half_to_bf16(wide[i]);
    }
    bool halves = from != DTYPE_F32;
    safetensors_item item = { "w", called, SHAPE(length), .data = halves ? (void *)narrow : (void *)wide,
                              .bytes = (uint64_t)length * dtype_bytes(from) };
    safetensors s;
    if (safetensors_write("one.safetensors", &item, 1) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(safetensors_open("one.safetensors", &s), STATUS_OK);
    void *into = to == DTYPE_F32 ? (void *)read_wide : (void *)read_narrow;
    model_weight w = { .name = "w", .shape = SHAPE(length), .data = into, .type = to };
    read_wide[length] = 77, read_narrow[length] = 77;
    if (weight_files_read(&s, safetensors_find(&s, "w"), &w) != STATUS_OK)
        fail_msg("%d numbers: %s", (int)length, status_message());
    for (int64_t i = 0; i < length; i++) {
        float is = to == DTYPE_F32   ? read_wide[i]
                   : to == DTYPE_F16 ? half_from_f16(read_narrow[i])
                                     : half_from_bf16(read_narrow[i]);
        if (is != number(i)) fail_msg("number %d of %d is %g", (int)i, (int)length, (double)is);
    }
    assert_true(read_wide[length] == 77 && read_narrow[length] == 77);
    safetensors_close(&s);
}

static void any_length_is_read(void **state) {
    (void)state;
    static const int64_t lengths[] = {
        1, 2, WEIGHT_PART - 1, WEIGHT_PART, WEIGHT_PART + 1, 2 * WEIGHT_PART - 1, 2 * WEIGHT_PART, MOST
    };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        read_as(lengths[i], DTYPE_BF16, "BF16", DTYPE_F32);
        read_as(lengths[i], DTYPE_F16, "F16", DTYPE_F32);
        read_as(lengths[i], DTYPE_F32, "F32", DTYPE_F32);
        read_as(lengths[i], DTYPE_F32, "F32", DTYPE_BF16);
        read_as(lengths[i], DTYPE_F32, "F32", DTYPE_F16);
        read_as(lengths[i], DTYPE_F16, "F16", DTYPE_BF16);
    }
}

/* What is not there has no sum. */
static void nothing_has_no_sum(void **state) {
    (void)state;
    io_sum sum;
    for (int early = 0; early < 2; early++) {
        assert_int_equal(weight_files_sum("nowhere", early, &sum), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "nowhere"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_length_is_read),
                                        cmocka_unit_test(nothing_has_no_sum) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
