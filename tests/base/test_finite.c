/* The search for numbers that are not finite, in all types, at all places, against the C library's isfinite.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/finite.h"
#include "base/half.h"

enum { MOST = 3000 };

static void put(dtype type, char *x, int64_t i, float value) {
    double wide = (double)value;
    uint16_t half = type == DTYPE_BF16 ? half_to_bf16(value) : half_to_f16(value);
    if (type == DTYPE_F32) memcpy(x + 4 * i, &value, 4);
    if (type == DTYPE_F64) memcpy(x + 8 * i, &wide, 8);
    if (dtype_is_half(type)) memcpy(x + 2 * i, &half, 2);
}

static void the_first_is_found(void **state) {
    (void)state;
    static const dtype types[] = { DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16 };
    static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
    static const int64_t counts[] = { 1, 2, 7, 1023, 1024, 1025, 2048, MOST };
    static char memory[8 * MOST + 16];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            int64_t n = counts[c], places[] = { 0, n / 2, n - 1 };
            char *x = memory + c % 3; /* at odd addresses as well */
            float largest = types[t] == DTYPE_F16 ? 65504 : 3.3e38f, least = 1e-45f;
            for (int64_t i = 0; i < n; i++)
                put(types[t], x, i, i % 3 == 0 ? largest : i % 3 == 1 ? -largest : least);
            assert_int_equal(finite_find(types[t], x, n), -1);
            for (size_t k = 0; k < 12; k++) {
                int64_t at = places[k / 4];
                put(types[t], x, at, bad[k % 4]);
                assert_int_equal(finite_find(types[t], x, n), at);
                if (at + 1 < n) put(types[t], x, n - 1, bad[k % 4]); /* the first of two */
                assert_int_equal(finite_find(types[t], x, n), at);
                put(types[t], x, at, 1), put(types[t], x, n - 1, 1);
            }
            put(types[t], x, n, NAN); /* behind the end */
            assert_int_equal(finite_find(types[t], x, n), -1);
        }
}

static void other_types_have_none(void **state) {
    (void)state;
    char x[64];
    memset(x, 0xff, sizeof x);
    assert_int_equal(finite_find(DTYPE_I32, x, 16), -1);
    assert_int_equal(finite_find(DTYPE_I8, x, 64), -1);
    assert_int_equal(finite_find(DTYPE_U8, x, 64), -1);
    assert_int_equal(finite_find(DTYPE_NONE, x, 64), -1);
    assert_int_equal(finite_find(DTYPE_F32, x, 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_found),
        cmocka_unit_test(other_types_have_none),
    };
    return cmocka_run_group_tests_name("finite", tests, NULL, NULL);
}
