#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/status.h"
#include "base/units.h"
#include "base/utf8.h"

static void sizes_are_read(void **state) {
    (void)state;
    uint64_t bytes = 0;
    assert_int_equal(units_parse_bytes("4GiB", "--memory", &bytes), STATUS_OK);
    assert_true(bytes == 4294967296u);
    assert_int_equal(units_parse_bytes("1.5KiB", "--memory", &bytes), STATUS_OK);
    assert_true(bytes == 1536);
    assert_int_equal(units_parse_bytes("4GB", "--memory", &bytes), STATUS_INVALID);
    assert_int_equal(units_parse_bytes("-1", "--memory", &bytes), STATUS_INVALID);
    static const char *const wrong[] = { "",    " 4",         "0x10", "nan", "inf", "1e400",
                                         "0.4", "5000000TiB", "4 x",  "+",   "-" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(units_parse_bytes(wrong[i], "--memory", &bytes), STATUS_INVALID);
}

/* A long name in the middle costs neither the beginning nor the end; the last sentence can be quoted. */
static void sentences_keep_their_ends(void **state) {
    (void)state;
    static char name[5001];
    memset(name, 'x', 5000);
    assert_int_equal(status_set(STATUS_INVALID, "begins %s ends", name), STATUS_INVALID);
    size_t length = strlen(status_message());
    assert_in_range(length, 900, 1023);
    assert_memory_equal(status_message(), "begins xxx", 10);
    assert_string_equal(status_message() + length - 9, "xxxx ends");
    status_set(STATUS_INVALID, "reason %d", 7);
    status_set(STATUS_FAILED, "twice: %s, %s", status_message(), status_message());
    assert_string_equal(status_message(), "twice: reason 7, reason 7");
}

static void texts_are_cleaned(void **state) {
    (void)state;
    char text[] = "a\nb\t\033[31m\x7f \xc3\xa9 \xff \xc2\x9b \xf0\x9f\x98\x80 \xe2\x82";
    utf8_clean(text);
    assert_string_equal(text, "a?b??[31m? \xc3\xa9 ? ? \xf0\x9f\x98\x80 ??");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_are_read),
                                        cmocka_unit_test(sentences_keep_their_ends),
                                        cmocka_unit_test(texts_are_cleaned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
