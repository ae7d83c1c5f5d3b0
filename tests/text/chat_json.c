#include "text/chat_json.h"

#include <stdlib.h>
#include <string.h>

static void *room(size_t bytes) {
    void *p = calloc(1, bytes + 1);
    if (!p) abort();
    return p;
}

static template_value members_of(struct json_object *o) {
    size_t n = (size_t)json_object_object_length(o), i = 0;
    template_value *items = room(n * sizeof *items);
    json_object_object_foreach(o, key, member) {
        items[i] = chat_json_value(member);
        items[i].key = key;
        items[i++].key_length = strlen(key);
    }
    return (template_value){ .kind = TEMPLATE_OBJECT, .list = { items, n } };
}

static template_value list_of(struct json_object *o) {
    size_t n = json_object_array_length(o);
    template_value *items = room(n * sizeof *items);
    for (size_t i = 0; i < n; i++) items[i] = chat_json_value(json_object_array_get_idx(o, i));
    return (template_value){ .kind = TEMPLATE_LIST, .list = { items, n } };
}

template_value chat_json_value(struct json_object *o) {
    switch (json_object_get_type(o)) {
    case json_type_boolean:
        return (template_value){ .kind = TEMPLATE_BOOL, .yes = json_object_get_boolean(o) };
    case json_type_int:
        return (template_value){ .kind = TEMPLATE_INTEGER, .integer = json_object_get_int64(o) };
    case json_type_double:
        return (template_value){ .kind = TEMPLATE_NUMBER, .number = json_object_get_double(o) };
    case json_type_string:
        return (
            template_value){ .kind = TEMPLATE_TEXT,
                             .text = { json_object_get_string(o), (size_t)json_object_get_string_len(o) } };
    case json_type_array: return list_of(o);
    case json_type_object: return members_of(o);
    default: return (template_value){ .kind = TEMPLATE_NONE };
    }
}

void chat_json_free(const template_value *v) {
    if (v->kind != TEMPLATE_LIST && v->kind != TEMPLATE_OBJECT) return;
    for (size_t i = 0; i < v->list.count; i++) chat_json_free(&v->list.items[i]);
    free((void *)v->list.items);
}
