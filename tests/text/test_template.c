/* Templates of our own against what Jinja makes of them (snippets.expected), learned bytes against answers by
 * hand, and bounds. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/chat_json.h"

enum { NOW = 1767225599 };

static status render(const char *source, size_t length, const template_value *variables, template_options o,
                     template_output *out) {
    template *t;
    time_t now = NOW;
    o.at = &now;
    *out = (template_output){ 0 };
    status result = template_parse("chat", source, length, &t);
    if (result == STATUS_OK) result = template_render(t, variables, &o, out);
    template_close(t);
    return result;
}

static size_t unescape(char *line) {
    size_t n = 0;
    for (char *p = line; *p && !(*p == '\n'); p++) {
        bool escape = p[0] == '\\' && p[1] == 'n';
        line[n++] = escape ? '\n' : *p;
        p += escape;
    }
    return n;
}

static void check(const char *source, size_t length, const template_value *variables,
                  struct json_object *expected) {
    template_output out;
    status result = render(source, length, variables, (template_options){ 0 }, &out);
    if (!expected) {
        if (result != STATUS_INVALID) fail_msg("%.*s\ngives %s", (int)length, source, out.text);
        if (strncmp(status_message(), "chat: line ", 11) != 0) fail_msg("%s", status_message());
        return;
    }
    if (result != STATUS_OK) fail_msg("%.*s\n%s", (int)length, source, status_message());
    if (out.length != (size_t)json_object_get_string_len(expected) ||
        memcmp(out.text, json_object_get_string(expected), out.length) != 0)
        fail_msg("%.*s\ngives %s\ninstead of %s", (int)length, source, out.text,
                 json_object_get_string(expected));
    size_t at = 0;
    for (size_t i = 0; i < out.range_count; i++) {
        assert_int_equal(out.ranges[i].begin, at);
        assert_true(out.ranges[i].end > at);
        at = out.ranges[i].end;
    }
    assert_int_equal(at, out.length);
    template_output_close(&out);
}

static void snippets_are_jinjas(void **state) {
    (void)state;
    FILE *sources = fopen(SNUG_ROOT "/tests/text/snippets.txt", "r"),
         *expected = fopen(SNUG_ROOT "/tests/text/snippets.expected", "r");
    struct json_object *chats = json_object_from_file(SNUG_ROOT "/tests/text/chats.json");
    assert_true(sources && expected && chats);
    char *line = NULL, *answer = NULL;
    size_t line_room = 0, answer_room = 0, checked = 0;
    while (getline(&line, &line_room, sources) > 0) {
        if (line[0] == '\n' || strncmp(line, "#!", 2) == 0) continue;
        assert_true(getline(&answer, &answer_room, expected) > 0);
        struct json_object *texts = json_tokener_parse(answer);
        size_t length = unescape(line), i = 0;
        json_object_object_foreach(chats, name, chat) {
            (void)name;
            template_value variables = chat_json_value(chat);
            check(line, length, &variables, json_object_array_get_idx(texts, i++));
            chat_json_free(&variables);
            checked++;
        }
        json_object_put(texts);
    }
    assert_true(getline(&answer, &answer_room, expected) < 0);
    assert_true(checked > 500);
    free(line), free(answer);
    fclose(sources), fclose(expected);
    json_object_put(chats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_are_jinjas),
    };
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
