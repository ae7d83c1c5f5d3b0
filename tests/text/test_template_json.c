/* JSON as values of templates: what Python's json makes of it, bounds, places of what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/template/template_json.h"

static status read_bytes(const char *text, size_t length, uint64_t most, template_json **out) {
    json_source source = json_source_memory(text, length, "chat.json", "the chat");
    return template_json_open(&source, most, out);
}

static void refused(const char *text, const char *sentence) {
    template_json *j;
    status result = read_bytes(text, strlen(text), UINT64_MAX, &j);
    if (result != STATUS_INVALID || strcmp(status_message(), sentence) != 0)
        fail_msg("%s: %d, %s", text, (int)result, status_message());
    assert_null(j);
}

/* `{{ v|tojson }}` of the value, which Python's json.dumps would write so. */
static void shown_as(const char *text, size_t length, const char *expected) {
    static const char source[] = "{{ v|tojson }}";
    template_json *j;
    template *t;
    template_output out;
    if (read_bytes(text, length, UINT64_MAX, &j) != STATUS_OK) fail_msg("%s: %s", text, status_message());
    template_value v = *template_json_value(j);
    v.key = "v", v.key_length = 1;
    template_value all = { .kind = TEMPLATE_OBJECT, .list = { &v, 1 } };
    assert_int_equal(template_parse("t", source, sizeof source - 1, &t), STATUS_OK);
    if (template_render(t, &all, &(template_options){ 0 }, &out) != STATUS_OK)
        fail_msg("%s: %s", text, status_message());
    assert_string_equal(out.text, expected);
    template_output_close(&out);
    template_close(t);
    template_json_close(j);
}

static void same(const char *text) { shown_as(text, strlen(text), text); }
static void other(const char *text, const char *expected) { shown_as(text, strlen(text), expected); }

static void values_are_pythons(void **state) {
    (void)state;
    same("null");
    same("true");
    same("[]");
    same("{}");
    same("[[], {}, [[]], {\"a\": []}]");
    same("{\"z\": 1, \"a\": {\"y\": [1, [2, 3], 4], \"b\": null}, \"\": \"\"}");
    same("[9223372036854775807, -9223372036854775808, 0]");
    other(" [ -0 , -0.0 , 1e2 , 1.50 , 1E-7, 12345678901234567890.0 ] ",
          "[0, -0.0, 100.0, 1.5, 1e-07, 1.2345678901234567e+19]");
    other("\"\\u00e9\\ud83d\\ude42\\/\\n\"", "\"é🙂/\\n\"");
    other("\"a\\u0000b\"", "\"a\\u0000b\"");
    other("{\"a\\u0000\": 1, \"a\": 2}", "{\"a\\u0000\": 1, \"a\": 2}");
    /* The last one counts, where the first one stood. */
    other("{\"a\": 1, \"b\": 2, \"a\": 3}", "{\"a\": 3, \"b\": 2}");
}

static void kinds_and_members(void **state) {
    (void)state;
    static const char text[] = "{\"a\":1,\"b\":1.0,\"c\":[true],\"a\":\"x\",\"d\":null}";
    template_json *j;
    assert_int_equal(read_bytes(text, sizeof text - 1, UINT64_MAX, &j), STATUS_OK);
    const template_value *v = template_json_value(j);
    assert_int_equal(v->kind, TEMPLATE_OBJECT);
    assert_int_equal(v->list.count, 5);
    assert_int_equal(v->list.items[0].integer, 1);
    assert_true(template_value_says(template_value_member(v, "a"), "x"));
    assert_false(template_value_says(template_value_member(v, "a"), "xy"));
    assert_false(template_value_says(template_value_member(v, "d"), ""));
    assert_int_equal(template_value_member(v, "b")->kind, TEMPLATE_NUMBER);
    assert_true(template_value_member(v, "c")->list.items[0].yes);
    assert_int_equal(template_value_member(v, "d")->kind, TEMPLATE_NONE);
    assert_null(template_value_member(v, "e"));
    assert_null(template_value_member(&v->list.items[0], "a"));
    template_json_close(j);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    refused("", "chat.json: the chat is wrong at byte 0: expected a value");
    refused("{\"a\":1", "chat.json: the chat is wrong at byte 6: expected '}'");
    refused("[1,]", "chat.json: the chat is wrong at byte 3: expected a value");
    refused("[1] 2", "chat.json: the chat is wrong at byte 4: something follows its end");
    refused("[01]", "chat.json: the chat is wrong at byte 3: a number begins with 0");
    refused("[NaN]", "chat.json: the chat is wrong at byte 1: expected a value");
    refused("[1e999]", "chat.json: the chat is wrong at byte 6: a number is too large");
    refused("{a: 1}", "chat.json: the chat is wrong at byte 1: expected '\"'");
    refused("['a']", "chat.json: the chat is wrong at byte 1: expected a value");
    refused("\"\\ud800\"", "chat.json: the chat is wrong at byte 7: half a surrogate");
    refused("\"\xff\"", "chat.json: the chat is wrong at byte 1: a string is not UTF-8");
    refused("\"a\nb\"", "chat.json: the chat is wrong at byte 2: a control character in a string");
    refused("[9223372036854775808]",
            "chat.json: the chat is wrong at byte 20: a whole number does not fit in 64 bits");
    refused("-9223372036854775809",
            "chat.json: the chat is wrong at byte 20: a whole number does not fit in 64 bits");
}

static void depth_is_bounded(void **state) {
    (void)state;
    char text[2 * TEMPLATE_JSON_DEPTH + 3];
    for (int extra = 0; extra < 2; extra++) {
        int depth = TEMPLATE_JSON_DEPTH + extra;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = 0;
        if (extra)
            refused(text, "chat.json: the chat is wrong at byte 501: values are nested more than 500 deep");
        else
            same(text);
    }
}

static void memory_is_bounded_and_counted(void **state) {
    (void)state;
    static const char text[] = "[\"abc\",{\"key\":7}]";
    template_json *j, *again;
    assert_int_equal(read_bytes(text, sizeof text - 1, UINT64_MAX, &j), STATUS_OK);
    uint64_t bytes = template_json_bytes(j);
    assert_in_range(bytes, 4 * sizeof(template_value) + 6, 4 * sizeof(template_value) + 6 + 100);
    assert_int_equal(read_bytes(text, sizeof text - 1, bytes, &again), STATUS_OK);
    template_json_close(again);
    assert_int_equal(read_bytes(text, sizeof text - 1, bytes - 1, &again), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "takes more than"));
    template_json_close(j);
}

/* In memory of the caller's the same values stand, in no more than was said, and nothing beside it is
 * touched.
 */
static void values_have_a_place(void **state) {
    (void)state;
    static const char *const placed[] = { "1",
                                          "[]",
                                          "[[],{},[[]],{\"\":{}}]",
                                          "[1,1,1,1,1,1,1,1,1,1]",
                                          "{\"a\":\"[{,\",\"b\":[{\"c\":null}]}",
                                          "\"abcdefghijklmnopqrstuvwxyz\"" };
    enum { GUARD = 64 };
    static _Alignas(16) char room[16 << 10];
    for (size_t i = 0; i < sizeof placed / sizeof *placed; i++) {
        uint64_t marks = 0, count = strlen(placed[i]);
        for (const char *c = placed[i]; *c; c++) marks += template_json_is_mark(*c);
        uint64_t most = template_json_most(count, marks), bytes = most + TEMPLATE_JSON_READING;
        json_source source = json_source_memory(placed[i], count, "chat.json", "the chat");
        template_json *j, *own;
        assert_true(bytes + GUARD <= sizeof room);
        memset(room, 0x5a, sizeof room);
        if (template_json_place(&source, room, bytes, &j) != STATUS_OK) fail_msg("%s", status_message());
        for (int g = 0; g < GUARD; g++) assert_int_equal(room[bytes + (uint64_t)g], 0x5a);
        assert_ptr_equal(j, room);
        assert_true(template_json_bytes(j) <= most && template_json_bytes(j) % 16 == 0);
        assert_int_equal(read_bytes(placed[i], count, UINT64_MAX, &own), STATUS_OK);
        assert_true(template_json_bytes(own) <= template_json_bytes(j));
        assert_int_equal(template_json_value(j)->kind, template_json_value(own)->kind);
        if (template_json_value(j)->kind == TEMPLATE_LIST)
            assert_int_equal(template_json_value(j)->list.count, template_json_value(own)->list.count);
        template_json_close(own);
        assert_int_equal(template_json_place(&source, room, TEMPLATE_JSON_READING - 1, &j), STATUS_INVALID);
        assert_null(j);
    }
    json_source wrong = json_source_memory("[1,]", 4, "tools", "its JSON");
    template_json *j;
    assert_int_equal(template_json_place(&wrong, room, sizeof room, &j), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "tools: its JSON is wrong at byte 3"));
    char many[4001] = { 0 };
    memset(many, '[', 400), memset(many + 400, ']', 400);
    json_source large = json_source_memory(many, 800, "tools", "its JSON");
    assert_int_equal(template_json_place(&large, room, TEMPLATE_JSON_READING, &j), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "takes more than"));
}

/* What is read a second time is another text: refused, whatever it is. */
static int readings;
static const char *texts[2];
static status read_other(const void *from, const char *path, uint64_t offset, void *into, uint64_t bytes) {
    (void)from, (void)path;
    if (offset == 0) readings++;
    memcpy(into, texts[readings > 1] + offset, bytes);
    return STATUS_OK;
}

static void a_source_that_changes_is_refused(void **state) {
    (void)state;
    static const char *const changed[][2] = { { "[1,2]  ", "[1,2,3]" },
                                              { "[1,2,3]", "[1,2]  " },
                                              { "\"abc\"  ", "\"abcde\"" },
                                              { "[\"\"]   ", "[\"abc\"]" } };
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        template_json *j;
        json_source source = {
            .read = read_other, .path = "x", .what = "it", .bytes = strlen(changed[i][0])
        };
        readings = 0, texts[0] = changed[i][0], texts[1] = changed[i][1];
        assert_int_equal(template_json_open(&source, UINT64_MAX, &j), STATUS_INVALID);
        assert_string_equal(status_message(), "x changed while it was read");
        assert_null(j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_pythons),
        cmocka_unit_test(kinds_and_members),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(memory_is_bounded_and_counted),
        cmocka_unit_test(values_have_a_place),
        cmocka_unit_test(a_source_that_changes_is_refused),
    };
    return cmocka_run_group_tests_name("template_json", tests, NULL, NULL);
}
