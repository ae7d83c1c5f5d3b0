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
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = { { "4GiB", 4294967296 }, { "1.5KiB", 1536 },       { "2G", 2147483648 },
                  { "2g", 2147483648 },   { "2Gi", 2147483648 },    { "2gib", 2147483648 },
                  { "2GB", 2000000000 },  { "2gb", 2000000000 },    { "40MB", 40000000 },
                  { "512M", 536870912 },  { "512 MiB", 536870912 }, { "64K", 65536 },
                  { "64kB", 64000 },      { "1T", 1099511627776 },  { "1TB", 1000000000000 },
                  { "1e9", 1000000000 },  { "1048576", 1048576 },   { "7B", 7 },
                  { "1.5G", 1610612736 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(units_parse_bytes(sizes[i].text, "--memory", &bytes), STATUS_OK);
        if (bytes != sizes[i].bytes) fail_msg("%s is %llu", sizes[i].text, (unsigned long long)bytes);
    }
    assert_int_equal(units_parse_bytes("-1", "--memory", &bytes), STATUS_INVALID);
    static const char *const wrong[] = { "",  " 4", "0x10", "nan", "inf", "1e400", "0.4", "5000000TiB", "4 x",
                                         "+", "-",  "G",    "4GG", "4iB", "4bi",   "4e",  "4 G B" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(units_parse_bytes(wrong[i], "--memory", &bytes), STATUS_INVALID);
}

static void counts_are_read(void **state) {
    (void)state;
    double count = 0;
    static const struct {
        const char *text;
        double count;
    } counts[] = { { "300B", 3e11 }, { "1.5T", 1.5e12 }, { "2M", 2e6 },
                   { "10k", 1e4 },   { "2e9", 2e9 },     { "4096", 4096 } };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        assert_int_equal(units_parse_count(counts[i].text, "--tokens", 1, 1e18, &count), STATUS_OK);
        if (count != counts[i].count) fail_msg("%s is %g", counts[i].text, count);
    }
    static const char *const wrong[] = {
        "", "B", "-1", "0", "0.5", "1G", "1BB", "1 B", "0x10", "nan", "2e6T"
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(units_parse_count(wrong[i], "--tokens", 1, 1e18, &count), STATUS_INVALID);
}

/* Numbers that stand together have the unit of the largest, and what is there is not said to be nothing. */
static void numbers_that_stand_together_have_one_unit(void **state) {
    (void)state;
    char out[UNITS_TEXT_BYTES];
    const uint64_t mib = 1u << 20, gib = 1u << 30;
    static const struct {
        uint64_t count;
        const char *text;
    } counts[] = {
        { 8030261248, "8.03 billion" }, { 124439808, "124.44 million" }, { 12288, "12,288" }, { 7, "7" }
    };
    assert_string_equal(units_bytes_text(6012 * mib, out), "6012.0 MiB");
    assert_string_equal(units_column_text(6012 * mib, 44 * gib, out), "5.87 GiB");
    assert_string_equal(units_column_text(65536, 44 * gib, out), "<0.01 GiB");
    assert_string_equal(units_column_text(0, 44 * gib, out), "0.00 GiB");
    assert_string_equal(units_column_text(1024, 900 * mib, out), "<0.1 MiB");
    assert_string_equal(units_column_text(20 * gib, 0, out), "21474836480 B");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_string_equal(units_count_text(counts[i].count, out), counts[i].text);
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
    assert_int_equal(status_set(STATUS_INVALID, "reason %d", 7), STATUS_INVALID);
    status failed = status_set(STATUS_FAILED, "twice: %s, %s", status_message(), status_message());
    assert_int_equal(failed, STATUS_FAILED);
    assert_string_equal(status_message(), "twice: reason 7, reason 7");
}

static void texts_are_cleaned(void **state) {
    (void)state;
    char text[] = "a\nb\t\033[31m\x7f \xc3\xa9 \xff \xc2\x9b \xf0\x9f\x98\x80 \xe2\x82";
    utf8_clean(text);
    assert_string_equal(text, "a?b??[31m? \xc3\xa9 ? ? \xf0\x9f\x98\x80 ??");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_are_read), cmocka_unit_test(counts_are_read),
                                        cmocka_unit_test(numbers_that_stand_together_have_one_unit),
                                        cmocka_unit_test(sentences_keep_their_ends),
                                        cmocka_unit_test(texts_are_cleaned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
