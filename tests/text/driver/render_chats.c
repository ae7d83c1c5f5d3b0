/* Renders chats that come as lines of JSON, and answers each with a line: for tools/compare_templates.py.
 *
 *   {"template": TEXT, "variables": {...}, "at": SECONDS, "by_message": true or false}
 *   {"text": TEXT, "ranges": [[begin, end, message, learned], ...]} or {"error": SENTENCE, "status": N} */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_json.h"

static void answer(struct json_object *o) {
    puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    fflush(stdout);
    json_object_put(o);
}

static void answer_failure(status code) {
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "error", json_object_new_string(status_message()));
    json_object_object_add(o, "status", json_object_new_int(code));
    answer(o);
}

static void answer_text(const template_output *out) {
    struct json_object *o = json_object_new_object(), *ranges = json_object_new_array();
    for (size_t i = 0; i < out->range_count; i++) {
        const template_range *g = &out->ranges[i];
        struct json_object *range = json_object_new_array();
        json_object_array_add(range, json_object_new_int64((int64_t)g->begin));
        json_object_array_add(range, json_object_new_int64((int64_t)g->end));
        json_object_array_add(range, json_object_new_int64(g->message));
        json_object_array_add(range, json_object_new_boolean(g->learned));
        json_object_array_add(ranges, range);
    }
    json_object_object_add(o, "text", json_object_new_string_len(out->text, (int)out->length));
    json_object_object_add(o, "ranges", ranges);
    answer(o);
}

static void render(struct json_object *line) {
    struct json_object *source = json_object_object_get(line, "template"),
                       *at = json_object_object_get(line, "at");
    template_value variables = chat_json_value(json_object_object_get(line, "variables"));
    time_t now = at ? (time_t)json_object_get_int64(at) : 0;
    template_options o = { .at = at ? &now : NULL,
                           .by_message =
                               json_object_get_boolean(json_object_object_get(line, "by_message")) };
    template_output out;
    template *t;
    status result = template_parse("template", json_object_get_string(source),
                                   (size_t)json_object_get_string_len(source), &t);
    if (result == STATUS_OK) result = template_render(t, &variables, &o, &out);
    if (result == STATUS_OK) {
        answer_text(&out);
        template_output_close(&out);
    } else
        answer_failure(result);
    template_close(t);
    chat_json_free(&variables);
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        struct json_object *o = json_tokener_parse(line);
        if (!o) return 1;
        render(o);
        json_object_put(o);
    }
    free(line);
    return 0;
}
