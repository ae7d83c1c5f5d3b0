#include "admit/settings.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

enum { DEPTH = 16 };

typedef struct {
    settings_each *each;
    void *context;
    size_t ends[DEPTH]; /* of the path, by depth: where it ends outside of that map */
    bool list[DEPTH];
    uint32_t depth;
    char key[SETTINGS_KEY_BYTES];
    size_t length;
    bool has_key; /* the next scalar is a value */
} walk;

/* ---- YAML and JSON ---- */

static bool push(walk *w, bool list) {
    if (w->depth == DEPTH) return false;
    w->ends[w->depth] = w->length, w->list[w->depth] = list;
    w->depth++;
    w->has_key = false;
    return true;
}

/* Behind a value, or a map or list that was one, its key ends. */
static void end_value(walk *w) {
    if (!w->depth || w->list[w->depth - 1]) return;
    w->length = w->ends[w->depth - 1];
    w->key[w->length] = 0;
    w->has_key = false;
}

static void pop(walk *w) {
    if (!w->depth) return;
    w->length = w->ends[--w->depth];
    w->key[w->length] = 0;
    end_value(w);
}

static void take_scalar(walk *w, const char *value) {
    bool list = w->depth && w->list[w->depth - 1];
    if (list || w->has_key) {
        w->each(w->context, w->key, value);
        end_value(w);
        return;
    }
    int n = snprintf(w->key + w->length, sizeof w->key - w->length, "%s%.100s", w->length ? "." : "", value);
    w->length += (size_t)n < sizeof w->key - w->length ? (size_t)n : 0;
    w->key[w->length] = 0;
    w->has_key = true;
}

/* False: it is over. An alias is no value that is known here. */
static bool take_event(walk *w, const yaml_event_t *e, bool *deep) {
    switch (e->type) {
    case YAML_STREAM_END_EVENT: return false;
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT: *deep = !push(w, e->type == YAML_SEQUENCE_START_EVENT); return !*deep;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: pop(w); return true;
    case YAML_ALIAS_EVENT: take_scalar(w, "?"); return true;
    case YAML_SCALAR_EVENT: take_scalar(w, (const char *)e->data.scalar.value); return true;
    default: return true;
    }
}

static status read_yaml(const char *path, const char *all, uint64_t bytes, walk *w) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return status_set(STATUS_FAILED, "no memory to read %s", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)all, (size_t)bytes);
    bool going = true, right = true, deep = false;
    while (going && right) {
        yaml_event_t e;
        right = yaml_parser_parse(&parser, &e);
        if (!right) break;
        going = take_event(w, &e, &deep);
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&parser);
    if (!right) return status_set(STATUS_INVALID, "%s is neither YAML nor JSON", path);
    return deep ? status_set(STATUS_INVALID, "%s has maps in maps, more than %d deep", path, DEPTH)
                : STATUS_OK;
}

/* ---- Python ---- */

static void read_line(const char *from, const char *to, walk *w) {
    char value[SETTINGS_VALUE_BYTES];
    const char *equals = memchr(from, '=', (size_t)(to - from));
    size_t n = strspn(from, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (!equals || !n || n >= sizeof w->key || equals < from + n || equals[1] == '=') return;
    memcpy(w->key, from, n);
    w->key[n] = 0;
    const char *at = equals + 1;
    while (at < to && (*at == ' ' || *at == '\t')) at++;
    const char *end = at;
    while (end < to && *end != '#') end++;
    while (end > at && strchr(" \t\r", end[-1])) end--;
    if (end - at >= 2 && (*at == '\'' || *at == '"') && end[-1] == *at) at++, end--;
    if ((size_t)(end - at) >= sizeof value) return;
    memcpy(value, at, (size_t)(end - at));
    value[end - at] = 0;
    w->each(w->context, w->key, value);
}

static void read_python(const char *all, uint64_t bytes, walk *w) {
    const char *at = all, *end = all + bytes;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        read_line(at, stop, w);
        at = stop + 1;
    }
}

status settings_read_text(const char *path, const char *all, uint64_t bytes, settings_each *each,
                          void *context) {
    walk w = { .each = each, .context = context };
    if (!text_ends_with(path, ".py")) return read_yaml(path, all, bytes, &w);
    read_python(all, bytes, &w);
    return STATUS_OK;
}

status settings_read(const char *path, settings_each *each, void *context) {
    char *data;
    uint64_t bytes;
    TRY(io_read_file(path, SETTINGS_BYTES, &data, &bytes));
    status result = settings_read_text(path, data, bytes, each, context);
    memory_free(data);
    return result;
}
