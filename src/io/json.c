#include "io/json.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "io/file.h"

/* What editors of another system put in front of a text. */
static status refuse_mark(const char *name, const char *bytes, size_t count) {
    bool utf8 = count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0;
    bool utf16 = count >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0);
    if (!utf8 && !utf16) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s is not JSON at byte 0: it begins with a byte order mark%s; save it as "
                      "UTF-8 without one",
                      name, utf16 ? " of UTF-16" : "");
}

/* json-c lets overlong forms pass, which could not be written again as they were read. */
static status refuse_no_utf8(const char *name, const char *bytes, size_t count) {
    for (size_t at = 0, length; at < count; at += length) {
        length = utf8_length(bytes + at, count - at);
        if (length == 0)
            return status_set(STATUS_INVALID, "%s is not JSON at byte %zu: it is not UTF-8 there", name, at);
    }
    return STATUS_OK;
}

/* At most what json-c allocates for the text: tables of objects begin with 16 places and double, lists with
 * 32, each value is a block of its own, each name another. */
static uint64_t tree_bytes(const char *bytes, size_t count) {
    enum { OBJECT = 900, LIST = 450, VALUE = 96, MEMBER = 280 };
    uint64_t all = VALUE + 2 * (uint64_t)count;
    char quote = 0;
    for (size_t i = 0; i < count; i++) {
        char c = bytes[i];
        if (quote) {
            if (c == '\\') i++;
            if (c == quote) quote = 0;
            continue;
        }
        if (c == '"' || c == '\'') quote = c;
        all += c == '{' ? OBJECT : c == '[' ? LIST : c == ',' ? VALUE : c == ':' ? MEMBER : 0;
    }
    return all;
}

static status refuse_large(const char *name, const char *bytes, size_t count, uint64_t most) {
    uint64_t tree = tree_bytes(bytes, count);
    if (tree <= most && count <= INT_MAX) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "%s has so many values in its %zu bytes of JSON that reading them takes %llu bytes; at most "
        "%llu are used for that: take out what is not needed, such as long lists of labels",
        name, count, (unsigned long long)tree, (unsigned long long)most);
}

status json_parse(const char *name, const char *bytes, size_t count, json_document *d) {
    *d = (json_document){ 0 };
    if (count <= JSON_FILE_LIMIT) return json_parse_within(name, bytes, count, JSON_TREE_LIMIT, d);
    return status_set(STATUS_INVALID, "%s has %zu bytes of JSON; at most %d are read", name, count,
                      JSON_FILE_LIMIT);
}

status json_parse_within(const char *name, const char *bytes, size_t count, uint64_t tree_limit,
                         json_document *d) {
    *d = (json_document){ 0 };
    TRY(refuse_large(name, bytes, count, tree_limit));
    TRY(refuse_mark(name, bytes, count));
    TRY(refuse_no_utf8(name, bytes, count));
    struct json_tokener *tokener = json_tokener_new_ex(JSON_MAX_DEPTH);
    char *copy = memory_text(name);
    status result = STATUS_OK;
    if (!tokener || !copy) {
        result = status_set(STATUS_FAILED, "%s: no memory to read it", name);
        goto done;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    struct json_object *root = json_tokener_parse_ex(tokener, bytes, (int)count);
    enum json_tokener_error error = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);
    /* A number at the end of the text is complete only when something follows it; all else has ended too
     * early, and then is wrong. */
    if (error == json_tokener_continue) {
        root = json_tokener_parse_ex(tokener, "", 1);
        error = json_tokener_get_error(tokener);
    }
    if (error != json_tokener_success) {
        result = status_set(STATUS_INVALID, "%s is not JSON at byte %zu: %s", name, end,
                            json_tokener_error_desc(error));
        goto done;
    }
    while (end < count && memchr(" \t\r\n", bytes[end], 4)) end++;
    if (end < count) {
        json_object_put(root);
        result =
            status_set(STATUS_INVALID, "%s is not JSON at byte %zu: something follows its end", name, end);
        goto done;
    }
    *d = (json_document){ .root = { .object = root, .file = copy }, .name = copy };
    copy = NULL;
done:
    memory_free(copy);
    if (tokener) json_tokener_free(tokener);
    return result;
}

status json_open(const char *path, json_document *d) {
    char *bytes;
    uint64_t count;
    *d = (json_document){ 0 };
    TRY(io_read_file(path, JSON_FILE_LIMIT, &bytes, &count));
    status result = json_parse(path, bytes, (size_t)count, d);
    memory_free(bytes);
    return result;
}

void json_close(json_document *d) {
    json_object_put(d->root.object);
    memory_free(d->name);
    *d = (json_document){ 0 };
}

/* "config.json: 'factor' in 'rope_scaling'" */
enum { PLACE_BYTES = 3 * UTF8_QUOTE_BYTES };
static const char *place(json_value v, char out[PLACE_BYTES]) {
    char key[UTF8_QUOTE_BYTES], inside[UTF8_QUOTE_BYTES];
    if (v.item)
        snprintf(out, PLACE_BYTES, "item %zu%s%s%s", v.index, v.inside ? " of '" : "",
                 v.inside ? utf8_quote(v.inside, inside) : "", v.inside ? "'" : "");
    else if (v.key)
        snprintf(out, PLACE_BYTES, "'%s'%s%s%s", utf8_quote(v.key, key), v.inside ? " in '" : "",
                 v.inside ? utf8_quote(v.inside, inside) : "", v.inside ? "'" : "");
    else
        snprintf(out, PLACE_BYTES, "the value");
    return out;
}

/* What it is, short enough for a sentence. */
static const char *shown(json_value v, char out[UTF8_QUOTE_BYTES]) {
    switch (json_object_get_type(v.object)) {
    case json_type_object: return "an object";
    case json_type_array: return "a list";
    default: return utf8_quote(v.object ? json_object_to_json_string(v.object) : "null", out);
    }
}

status json_wrong(json_value v, const char *format, ...) {
    char rest[768], where[PLACE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    return status_set(STATUS_INVALID, "%s: %s %s", v.file, place(v, where), rest);
}

static status wrong_type(json_value v, const char *wanted) {
    char value[UTF8_QUOTE_BYTES];
    return json_wrong(v, "is %s; it must be %s", shown(v, value), wanted);
}

static status wrong_integer(json_value v, int64_t low, int64_t high) {
    char value[UTF8_QUOTE_BYTES];
    return json_wrong(v, "is %s; it must be a whole number from %lld to %lld", shown(v, value),
                      (long long)low, (long long)high);
}

status json_as_integer(json_value v, int64_t low, int64_t high, int64_t *out) {
    int64_t value;
    if (json_object_is_type(v.object, json_type_int)) {
        /* json-c keeps numbers beyond int64 as uint64, and clamps what is beyond that. */
        value = json_object_get_int64(v.object);
        if (value == INT64_MAX && json_object_get_uint64(v.object) > (uint64_t)INT64_MAX)
            return wrong_integer(v, low, high);
    } else if (json_object_is_type(v.object, json_type_double)) {
        double number = json_object_get_double(v.object);
        if (!(fabs(number) <= 0x1p53) || number != floor(number)) return wrong_integer(v, low, high);
        value = (int64_t)number;
    } else {
        return wrong_integer(v, low, high);
    }
    if (value < low || value > high) return wrong_integer(v, low, high);
    *out = value;
    return STATUS_OK;
}

status json_as_number(json_value v, double low, double high, double *out) {
    enum json_type type = json_object_get_type(v.object);
    double value = type == json_type_int || type == json_type_double ? json_object_get_double(v.object) : NAN;
    if (!(value >= low && value <= high)) {
        char given[UTF8_QUOTE_BYTES];
        return json_wrong(v, "is %s; it must be a number from %g to %g", shown(v, given), low, high);
    }
    *out = value;
    return STATUS_OK;
}

status json_as_bool(json_value v, bool *out) {
    if (!json_object_is_type(v.object, json_type_boolean)) return wrong_type(v, "true or false");
    *out = json_object_get_boolean(v.object);
    return STATUS_OK;
}

status json_as_string(json_value v, const char **out) {
    if (!json_object_is_type(v.object, json_type_string)) return wrong_type(v, "a string");
    const char *value = json_object_get_string(v.object);
    if (strlen(value) != (size_t)json_object_get_string_len(v.object))
        return json_wrong(v, "has a zero byte inside");
    *out = value;
    return STATUS_OK;
}

status json_as_object(json_value v) {
    return json_object_is_type(v.object, json_type_object) ? STATUS_OK : wrong_type(v, "an object");
}

bool json_is_string(json_value v) { return json_object_is_type(v.object, json_type_string); }
bool json_is_array(json_value v) { return json_object_is_type(v.object, json_type_array); }

status json_as_array(json_value v, size_t *count) {
    if (!json_object_is_type(v.object, json_type_array)) return wrong_type(v, "a list");
    *count = json_object_array_length(v.object);
    return STATUS_OK;
}

static bool member(json_value object, const char *key, json_value *out) {
    struct json_object *found;
    if (!json_object_is_type(object.object, json_type_object)) return false;
    if (!json_object_object_get_ex(object.object, key, &found)) return false;
    *out = (json_value){ .object = found, .file = object.file, .key = key, .inside = object.key };
    return true;
}

bool json_says(json_value object, const char *key) {
    json_value found;
    return member(object, key, &found);
}

bool json_find(json_value object, const char *key, json_value *out) {
    return member(object, key, out) && out->object;
}

bool json_has(json_value object, const char *key) {
    json_value found;
    return json_find(object, key, &found);
}

status json_get(json_value object, const char *key, json_value *out) {
    TRY(json_as_object(object));
    if (member(object, key, out)) return STATUS_OK;
    return json_wrong((json_value){ .file = object.file, .key = key, .inside = object.key }, "is missing");
}

status json_get_integer(json_value object, const char *key, int64_t low, int64_t high, int64_t *out) {
    json_value v;
    TRY(json_get(object, key, &v));
    return json_as_integer(v, low, high, out);
}

status json_get_number(json_value object, const char *key, double low, double high, double *out) {
    json_value v;
    TRY(json_get(object, key, &v));
    return json_as_number(v, low, high, out);
}

status json_get_bool(json_value object, const char *key, bool *out) {
    json_value v;
    TRY(json_get(object, key, &v));
    return json_as_bool(v, out);
}

status json_get_string(json_value object, const char *key, const char **out) {
    json_value v;
    TRY(json_get(object, key, &v));
    return json_as_string(v, out);
}

status json_optional_integer(json_value object, const char *key, int64_t low, int64_t high, int64_t *out) {
    json_value v;
    return json_find(object, key, &v) ? json_as_integer(v, low, high, out) : STATUS_OK;
}

status json_optional_number(json_value object, const char *key, double low, double high, double *out) {
    json_value v;
    return json_find(object, key, &v) ? json_as_number(v, low, high, out) : STATUS_OK;
}

status json_optional_bool(json_value object, const char *key, bool *out) {
    json_value v;
    return json_find(object, key, &v) ? json_as_bool(v, out) : STATUS_OK;
}

status json_optional_string(json_value object, const char *key, const char **out) {
    json_value v;
    return json_find(object, key, &v) ? json_as_string(v, out) : STATUS_OK;
}

json_value json_item(json_value array, size_t index) {
    return (json_value){ .object = json_object_array_get_idx(array.object, index),
                         .file = array.file,
                         .inside = array.key,
                         .index = index,
                         .item = true };
}

bool json_next(json_value object, void **cursor, json_value *found) {
    struct lh_entry *entry = *cursor;
    entry = entry ? entry->next : json_object_get_object(object.object)->head;
    if (!entry) return false;
    *cursor = entry;
    *found = (json_value){ .object = (struct json_object *)lh_entry_v(entry),
                           .file = object.file,
                           .key = lh_entry_k(entry),
                           .inside = object.key };
    return true;
}
