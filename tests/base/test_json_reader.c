/* JSON of any length: what is taken, what is refused and where, across the edges of the buffer. */
#include "base/json_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static json_reader reader;

static json_reader *begin(const char *text, size_t bytes) {
    json_source source = json_source_memory(text, bytes, "a.json", "the text");
    json_reader_begin(&reader, &source);
    return &reader;
}

static json_reader *begin_text(const char *text) { return begin(text, strlen(text)); }

static void assert_wrong(status result, const char *sentence) {
    assert_int_equal(result, STATUS_INVALID);
    assert_string_equal(status_message(), sentence);
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {
        { "0", 0 },          { "-0.5", -0.5 }, { " 12", 12 },   { "1e3", 1000 },
        { "2.5E-2", 0.025 }, { "-7e+1", -70 }, { "1e-400", 0 }, { "-13.1474609375", -13.1474609375 }
    };
    double value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        json_reader *r = begin_text(good[i].text);
        assert_int_equal(json_reader_number(r, &value), STATUS_OK);
        assert_true(value == good[i].value);
        assert_int_equal(json_reader_end(r), STATUS_OK);
    }
    assert_wrong(json_reader_number(begin_text("-"), &value),
                 "a.json: the text is wrong at byte 1: expected a digit");
    assert_wrong(json_reader_number(begin_text("01"), &value),
                 "a.json: the text is wrong at byte 2: a number begins with 0");
    assert_wrong(json_reader_number(begin_text("1.x"), &value),
                 "a.json: the text is wrong at byte 2: expected a digit");
    assert_wrong(json_reader_number(begin_text("1e999"), &value),
                 "a.json: the text is wrong at byte 5: a number is too large");
    char digits[JSON_READER_NUMBER + 2];
    memset(digits, '1', sizeof digits);
    assert_int_equal(json_reader_number(begin(digits, sizeof digits), &value), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "a number is too long"));
}

static void test_words(void **state) {
    (void)state;
    bool value, null;
    assert_int_equal(json_reader_bool(begin_text(" true"), &value), STATUS_OK);
    assert_true(value);
    assert_int_equal(json_reader_bool(begin_text("false"), &value), STATUS_OK);
    assert_false(value);
    assert_int_equal(json_reader_null(begin_text("null"), &null), STATUS_OK);
    assert_true(null);
    assert_int_equal(json_reader_null(begin_text("1"), &null), STATUS_OK);
    assert_false(null);
    assert_wrong(json_reader_bool(begin_text("fals"), &value),
                 "a.json: the text is wrong at byte 4: expected true, false or null");
    assert_wrong(json_reader_null(begin_text("nil"), &null),
                 "a.json: the text is wrong at byte 1: expected true, false or null");
}

/* A string that is longer than the buffer, with characters and escapes on every edge of it. */
static void test_long_strings(void **state) {
    (void)state;
    static char text[6 * JSON_READER_BUFFER], expected[sizeof text], out[sizeof text];
    for (size_t shift = 0; shift < 12; shift++) {
        size_t n = 0, m = 0;
        text[n++] = '"';
        for (; m < shift; m++) text[n++] = expected[m] = 'x';
        while (n < 2 * JSON_READER_BUFFER + 40) {
            memcpy(text + n, "\xf0\x9f\x98\x80\\ud83d\\uDE00\\u0000\\n", 4 + 12 + 6 + 2);
            memcpy(expected + m, "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\0\n", 10);
            n += 24, m += 10;
        }
        text[n++] = '"';
        uint64_t bytes;
        assert_int_equal(json_reader_text(begin(text, n), out, sizeof out, &bytes), STATUS_OK);
        assert_int_equal(bytes, m);
        assert_memory_equal(out, expected, m);
        json_reader *r = begin(text, n);
        assert_int_equal(json_reader_text(r, NULL, 0, &bytes), STATUS_OK); /* counted alone */
        assert_int_equal(bytes, m);
        assert_int_equal(json_reader_end(r), STATUS_OK);
        assert_int_equal(json_reader_text(begin(text, n), out, 7, &bytes), STATUS_OK);
        assert_int_equal(bytes, m);
        assert_int_equal(json_reader_text(begin(text, n - 1), out, sizeof out, &bytes), STATUS_INVALID);
    }
}

static void test_wrong_strings(void **state) {
    (void)state;
    char out[JSON_READER_STRING];
    uint64_t bytes;
    assert_wrong(json_reader_string(begin_text("\"a\\u0000\""), out),
                 "a.json: the text is wrong at byte 8: a zero byte in a string");
    assert_wrong(json_reader_text(begin_text("\"\\ud800x\""), NULL, 0, &bytes),
                 "a.json: the text is wrong at byte 7: half a surrogate");
    assert_wrong(json_reader_text(begin_text("\"\xc3\""), NULL, 0, &bytes),
                 "a.json: the text is wrong at byte 1: a string is not UTF-8");
    assert_wrong(json_reader_text(begin_text("\"\n\""), NULL, 0, &bytes),
                 "a.json: the text is wrong at byte 1: a control character in a string");
    assert_wrong(json_reader_text(begin_text("\"\\q\""), NULL, 0, &bytes),
                 "a.json: the text is wrong at byte 3: an unknown escape in a string");
}

static void test_places(void **state) {
    (void)state;
    json_reader *r = begin_text("{\"a\": [1, 2], \"b\" : \"text\"}");
    char name[JSON_READER_STRING];
    uint64_t value;
    assert_int_equal(json_reader_expect(r, '{'), STATUS_OK);
    assert_int_equal(json_reader_string(r, name), STATUS_OK);
    assert_int_equal(json_reader_expect(r, ':'), STATUS_OK);
    uint64_t place = json_reader_place(r);
    assert_int_equal(place, 6);
    assert_int_equal(json_reader_skip(r), STATUS_OK);
    assert_int_equal(json_reader_place(r), 12);
    json_reader_go(r, place);
    assert_int_equal(json_reader_expect(r, '['), STATUS_OK);
    assert_int_equal(json_reader_whole(r, &value), STATUS_OK);
    assert_int_equal(value, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_words),
        cmocka_unit_test(test_long_strings), cmocka_unit_test(test_wrong_strings),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
