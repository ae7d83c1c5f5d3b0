/* Renders chats by what model directories say, for tools/compare_chats.py: lines of JSON, each answered with
 * a line.
 *
 *   {"directory": PATH, "messages": [...], "tools": [...] or null, "prompt": true or false}
 *   {"text": TEXT} or {"error": SENTENCE, "status": N} */
#define _GNU_SOURCE
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language/chat.h"
#include "text/template/template_json.h"

static status render(const template_value *line, template_output *out) {
    const template_value *directory = template_value_member(line, "directory");
    bool there;
    chat *c = NULL;
    char *path = strndup(directory->text.bytes, directory->text.length);
    status result = path ? chat_open(path, &c, &there) : status_set(STATUS_FAILED, "no memory");
    if (result == STATUS_OK && !there) result = status_set(STATUS_INVALID, "no chat template");
    /* The second time takes its values from what the first has left. */
    for (int i = 0; i < 2 && result == STATUS_OK; i++) {
        template_output_close(out);
        result = chat_render(c, template_value_member(line, "messages"), template_value_member(line, "tools"),
                             template_value_member(line, "prompt")->yes, out);
    }
    chat_close(c);
    free(path);
    return result;
}

static void answer(const char *line, size_t length) {
    json_source source = json_source_memory(line, length, "input", "the line");
    struct json_object *o = json_object_new_object();
    template_output out = { 0 };
    template_json *j = NULL;
    status result = template_json_open(&source, 1 << 28, &j);
    if (result == STATUS_OK) result = render(template_json_value(j), &out);
    if (result == STATUS_OK) {
        json_object_object_add(o, "text", json_object_new_string_len(out.text, (int)out.length));
    } else {
        json_object_object_add(o, "error", json_object_new_string(status_message()));
        json_object_object_add(o, "status", json_object_new_int(result));
    }
    puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    fflush(stdout);
    template_output_close(&out);
    template_json_close(j);
    json_object_put(o);
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    for (ssize_t n; (n = getline(&line, &size, stdin)) > 0;) answer(line, (size_t)n);
    free(line);
    return 0;
}
