#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <malloc.h>
#include <math.h>
#include <string.h>

#include "io/json.h"
#include "io/scratch.h"

static json_document parsed(const char *bytes) {
    json_document d;
    if (json_parse("c.json", bytes, strlen(bytes), &d) != STATUS_OK) fail_msg("%s", status_message());
    return d;
}

static const char members[] =
    "{\"n\":12,\"f\":1e3,\"whole\":4.0,\"x\":-0.5,\"b\":true,\"s\":\"h\\u00e9\",\"none\":null,"
    "\"list\":[1,2,\"x\"],\"in\":{\"y\":2},\"big\":18446744073709551615,\"inf\":Infinity,"
    "\"nan\":NaN} \n";

static void members_are_read(void **state) {
    (void)state;
    json_document d = parsed(members);
    int64_t n = 0;
    double x = 0;
    bool b = false;
    const char *s = NULL;
    json_value v;
    assert_int_equal(json_get_integer(d.root, "n", 0, 12, &n), STATUS_OK);
    assert_int_equal(n, 12);
    assert_int_equal(json_get_integer(d.root, "f", 0, 5000, &n), STATUS_OK);
    assert_int_equal(n, 1000);
    assert_int_equal(json_get_integer(d.root, "whole", 0, 5000, &n), STATUS_OK);
    assert_int_equal(n, 4);
    assert_int_equal(json_get_number(d.root, "x", -1, 1, &x), STATUS_OK);
    assert_true(x == -0.5);
    assert_int_equal(json_get_number(d.root, "n", 0, 100, &x), STATUS_OK);
    assert_true(x == 12);
    assert_int_equal(json_get_number(d.root, "inf", 0, INFINITY, &x), STATUS_OK);
    assert_int_equal(json_get_bool(d.root, "b", &b), STATUS_OK);
    assert_true(b);
    assert_int_equal(json_get_string(d.root, "s", &s), STATUS_OK);
    assert_string_equal(s, "h\xc3\xa9");
    n = 7;
    assert_int_equal(json_optional_integer(d.root, "none", 0, 1, &n), STATUS_OK);
    assert_int_equal(json_optional_integer(d.root, "absent", 0, 1, &n), STATUS_OK);
    assert_int_equal(n, 7);
    assert_false(json_has(d.root, "none"));
    assert_true(json_has(d.root, "list"));
    assert_int_equal(json_get(d.root, "none", &v), STATUS_OK);
    assert_null(v.object);
    json_close(&d);
    json_close(&d);
}

static void wrong_members_are_named(void **state) {
    (void)state;
    json_document d = parsed(members);
    int64_t n = 7;
    double x;
    bool b;
    const char *s;
    static const struct {
        const char *key, *sentence;
        int64_t high;
    } wrong[] = {
        { "absent", "c.json: 'absent' is missing", 5 },
        { "n", "c.json: 'n' is 12; it must be a whole number from 1 to 5", 5 },
        { "x", "c.json: 'x' is -0.5; it must be a whole number from 1 to 5", 5 },
        { "b", "c.json: 'b' is true; it must be a whole", 5 },
        { "s", "c.json: 's' is \"h\xc3\xa9\"; it must be a whole", 5 },
        { "none", "c.json: 'none' is null; it must be a whole", 5 },
        { "list", "c.json: 'list' is a list; it must be a whole", 5 },
        { "in", "c.json: 'in' is an object; it must be a whole", 5 },
        { "big", "c.json: 'big' is 18446744073709551615; it must", INT64_MAX },
        { "inf", "c.json: 'inf' is Infinity; it must", INT64_MAX },
        { "nan", "c.json: 'nan' is NaN; it must", INT64_MAX },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(json_get_integer(d.root, wrong[i].key, 1, wrong[i].high, &n), STATUS_INVALID);
        assert_int_equal(n, 7);
        if (strncmp(status_message(), wrong[i].sentence, strlen(wrong[i].sentence)) != 0)
            fail_msg("'%s' instead of '%s'", status_message(), wrong[i].sentence);
    }
    for (int kind = 0; kind < 3; kind++) {
        if (status_set(STATUS_FAILED, "nothing") != STATUS_FAILED) fail();
        status result = kind == 0   ? json_get_number(d.root, "absent", -1, 1, &x)
                        : kind == 1 ? json_get_bool(d.root, "absent", &b)
                                    : json_get_string(d.root, "absent", &s);
        assert_int_equal(result, STATUS_INVALID);
        assert_string_equal(status_message(), "c.json: 'absent' is missing");
    }
    assert_int_equal(json_get_number(d.root, "nan", -INFINITY, INFINITY, &x), STATUS_INVALID);
    assert_int_equal(json_get_bool(d.root, "n", &b), STATUS_INVALID);
    assert_int_equal(json_get_string(d.root, "n", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "'n' is 12; it must be a string"));
    json_close(&d);
}

static void inner_places_are_named(void **state) {
    (void)state;
    json_document d = parsed("{\"list\":[1,2,\"x\"],\"in\":{\"y\":2,\"z\":[3]}}");
    json_value list, in, item;
    size_t count = 0;
    int64_t n;
    assert_int_equal(json_get(d.root, "list", &list), STATUS_OK);
    assert_int_equal(json_as_array(list, &count), STATUS_OK);
    assert_int_equal(count, 3);
    assert_int_equal(json_as_integer(json_item(list, 1), 0, 9, &n), STATUS_OK);
    assert_int_equal(n, 2);
    assert_int_equal(json_as_integer(json_item(list, 2), 0, 9, &n), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "c.json: item 2 of 'list' is \"x\""));
    assert_int_equal(json_get(d.root, "in", &in), STATUS_OK);
    assert_int_equal(json_get_integer(in, "y", 3, 4, &n), STATUS_INVALID);
    assert_non_null(
        strstr(status_message(), "c.json: 'y' in 'in' is 2; it must be a whole number from 3 to 4"));
    assert_int_equal(json_get(in, "none", &item), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "c.json: 'none' in 'in' is missing"));
    assert_int_equal(json_get(list, "none", &item), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "'list' is a list; it must be an object"));
    assert_false(json_has(list, "none"));
    const char *names[] = { "y", "z" };
    int seen = 0;
    for (void *cursor = NULL; json_next(in, &cursor, &item); seen++)
        assert_string_equal(item.key, names[seen]);
    assert_int_equal(seen, 2);
    json_close(&d);
}

static void what_is_not_json_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",         " ",   "{",        "{\"a\":1,}", "{\"a\" 1}", "[1,]",        "tru",
        "{} {}",    "{}x", "/* */ {}", "{\"a\":01}", "\"abc",     "[1",          "\"\xff\"",
        "{\"a\":}", "nan", "{\"a\":1", "}",          "-",         "\"\xc1\x9e\""
    }; /* overlong */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_document d;
        if (json_parse("c.json", bad[i], strlen(bad[i]), &d) != STATUS_INVALID)
            fail_msg("'%s' is taken", bad[i]);
        assert_non_null(strstr(status_message(), "c.json is not JSON at byte"));
    }
    static const char *const marked[] = { "\xef\xbb\xbf{}", "\xff\xfe{", "\xfe\xff{" };
    for (size_t i = 0; i < sizeof marked / sizeof *marked; i++) {
        json_document d;
        assert_int_equal(json_parse("c.json", marked[i], strlen(marked[i]), &d), STATUS_INVALID);
        if (!strstr(status_message(), "byte order mark")) fail_msg("%zu: %s", i, status_message());
        assert_true(!strstr(status_message(), "UTF-16") == !i);
    }
    static const char *const halves[] = { "", " ", "{", "[1", "\"abc", "tru", "{\"a\":1" };
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        json_document d;
        assert_int_equal(json_parse("c.json", halves[i], strlen(halves[i]), &d), STATUS_INVALID);
        if (!strstr(status_message(), "unexpected end of data"))
            fail_msg("'%s': %s", halves[i], status_message());
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    json_document d;
    assert_int_equal(json_parse("deep", deep, sizeof deep, &d), STATUS_INVALID);
    static const char *const good[] = { "1", "-1.5", "null", "true", "\"a\"", "[]", " {} ", "[1,2]\n" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        d = parsed(good[i]);
        json_close(&d);
    }
}

static void files_are_bounded(void **state) {
    (void)state;
    json_document d;
    assert_int_equal(json_open("absent.json", &d), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "absent.json"));
    assert_int_equal(json_open(".", &d), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "a folder"));
    scratch_write("a.json", "{\"a\":[1]}\n", 10);
    assert_int_equal(json_open("a.json", &d), STATUS_OK);
    json_close(&d);
    scratch_write("large.json", "1", 1);
    assert_int_equal(truncate("large.json", JSON_FILE_LIMIT + 1), 0);
    assert_int_equal(json_open("large.json", &d), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "has 1048577 bytes; at most 1048576"));
}

static void fill(char *json, size_t bytes, const char *part) {
    for (size_t i = 0, n = strlen(part); i + n <= bytes; i += n) memcpy(json + i, part, n);
}

/* What a text takes when it is read is known before: where it is let pass, the heap grows by no more than
 * that. */
static void values_are_bounded(void **state) {
    (void)state;
    static const char *const parts[] = { "{},",   "[],", "1,", "[[[[[[[]]]]]]],", "{\"a\":{\"b\":[1]}},",
                                         "\"x\"," };
    static char json[600000];
    json_document d;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint32_t passed = 0, refused = 0;
        for (size_t bytes = 200; bytes < sizeof json; bytes += bytes / 2) {
            memset(json, ' ', bytes);
            json[0] = '[';
            fill(json + 1, bytes - 8, parts[i]);
            memcpy(json + bytes - 3, "0]", 2);
            size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
            status result = json_parse("many.json", json, bytes - 1, &d);
            size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
            if (result == STATUS_OK && after - before > JSON_TREE_LIMIT)
                fail_msg("%zu bytes of %s took %zu", bytes, parts[i], after - before);
            if (result != STATUS_OK && !strstr(status_message(), "at most 3145728 are used"))
                fail_msg("%zu bytes of %s: %s", bytes, parts[i], status_message());
            passed += result == STATUS_OK, refused += result != STATUS_OK;
            json_close(&d);
        }
        assert_true(passed > 3 && refused > 0);
    }
}

static void random_texts_do_no_harm(void **state) {
    (void)state;
    static const char letters[] = "{}[]:,\"\\u01e-.+ntfNI \n/*'a\xc3\xa9\xff";
    uint64_t random = 3;
    for (int round = 0; round < 20000; round++) {
        char bytes[40];
        size_t n = scratch_random(&random) % sizeof bytes;
        for (size_t i = 0; i < n; i++) bytes[i] = letters[scratch_random(&random) % (sizeof letters - 1)];
        json_document d;
        if (json_parse("r", bytes, n, &d) == STATUS_OK) json_close(&d);
    }
}

static void write_all(json_writer *w) {
    json_begin_object(w, NULL);
    json_put_integer(w, "n", INT64_MIN);
    json_put_unsigned(w, "u", UINT64_MAX);
    json_put_bool(w, "b", false);
    json_put_string(w, "s\"", "a\\\"\n\t\x01\x7f/\xc3\xa9\xff");
    json_put_string(w, "none", NULL);
    json_put_number(w, "nan", NAN);
    json_put_float(w, "inf", INFINITY);
    json_begin_array(w, "list");
    json_put_number(w, NULL, 0.1);
    json_put_float(w, NULL, 0.1f);
    json_begin_object(w, NULL);
    json_end_object(w);
    json_begin_array(w, NULL);
    json_end_array(w);
    json_end_array(w);
    json_put_null(w, "end");
    json_end_object(w);
}

static void what_is_written_is_json(void **state) {
    (void)state;
    text line = { 0 }, lines = { 0 };
    json_writer w = { .out = &line };
    write_all(&w);
    assert_string_equal(line.data,
                        "{\"n\": -9223372036854775808, \"u\": 18446744073709551615, \"b\": false, "
                        "\"s\\\"\": \"a\\\\\\\"\\n\\t\\u0001\\u007f/\xc3\xa9\xef\xbf\xbd\", \"none\": null, "
                        "\"nan\": null, \"inf\": null, \"list\": [0.1, 0.1, {}, []], \"end\": null}");
    w = (json_writer){ .out = &lines, .lines = true };
    write_all(&w);
    assert_non_null(strstr(lines.data, "{\n  \"n\": -9223372036854775808,\n  \"u\""));
    assert_non_null(
        strstr(lines.data, "  \"list\": [\n    0.1,\n    0.1,\n    {},\n    []\n  ],\n  \"end\": null\n}"));
    json_document a = parsed(line.data), b = parsed(lines.data);
    json_close(&a);
    json_close(&b);
    text_close(&line);
    text_close(&lines);
}

static void numbers_come_back(void **state) {
    (void)state;
    uint64_t random = 5;
    for (int round = 0; round < 20000; round++) {
        uint64_t bits = (uint64_t)scratch_random(&random) << 40 ^ (uint64_t)scratch_random(&random) << 20 ^
                        scratch_random(&random);
        uint32_t small = scratch_random(&random) << 1 ^ (uint32_t)round;
        double number, read;
        float value;
        memcpy(&number, &bits, 8);
        memcpy(&value, &small, 4);
        if (!isfinite(number) || !isfinite(value)) continue;
        text t = { 0 };
        json_writer w = { .out = &t };
        json_begin_array(&w, NULL);
        json_put_number(&w, NULL, number);
        json_put_float(&w, NULL, value);
        json_end_array(&w);
        json_document d = parsed(t.data);
        assert_int_equal(json_as_number(json_item(d.root, 0), -INFINITY, INFINITY, &read), STATUS_OK);
        assert_memory_equal(&read, &number, 8);
        assert_int_equal(json_as_number(json_item(d.root, 1), -INFINITY, INFINITY, &read), STATUS_OK);
        assert_true((float)read == value);
        json_close(&d);
        text_close(&t);
    }
}

static void the_locale_does_not_matter(void **state) {
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) skip();
    text t = { 0 };
    json_writer w = { .out = &t };
    json_put_number(&w, NULL, 1.5);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(t.data, "1.5");
    text_close(&t);
}

/* What stands behind the text is none of it: the least room that a text is read within stays the least. */
static void what_stands_behind_is_not_counted(void **state) {
    (void)state;
    static const char all[] = "{}[[[[";
    uint64_t least = 1;
    json_document d;
    while (json_parse_within("c.json", "{}", 2, least, &d) != STATUS_OK) least++;
    json_close(&d);
    assert_int_equal(json_parse_within("c.json", all, 2, least, &d), STATUS_OK);
    json_close(&d);
}

/* The limit itself is read, one byte more is not. */
static void the_limit_is_exact(void **state) {
    (void)state;
    static char spaces[JSON_FILE_LIMIT + 1];
    json_document d;
    memset(spaces, ' ', sizeof spaces);
    spaces[0] = '{', spaces[1] = '}';
    assert_int_equal(json_parse("c.json", spaces, JSON_FILE_LIMIT, &d), STATUS_OK);
    json_close(&d);
    assert_int_equal(json_parse("c.json", spaces, JSON_FILE_LIMIT + 1, &d), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "c.json has 1048577 bytes of JSON"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_read),        cmocka_unit_test(wrong_members_are_named),
        cmocka_unit_test(inner_places_are_named),  cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(files_are_bounded),       cmocka_unit_test(values_are_bounded),
        cmocka_unit_test(random_texts_do_no_harm), cmocka_unit_test(what_is_written_is_json),
        cmocka_unit_test(numbers_come_back),       cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(the_limit_is_exact),      cmocka_unit_test(what_stands_behind_is_not_counted),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
