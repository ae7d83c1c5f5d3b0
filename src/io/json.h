/* JSON, read with sentences and written without surprises.
 *
 * Reading goes through json-c in its strict mode, which also takes the NaN and Infinity of real model
 * configurations (and names in single quotes). A value knows the file and the place it came from, so whatever
 * is wrong with it can be said in one sentence: "config.json: 'factor' in 'rope_scaling' is true; it must be
 * a number from 1 to 100". When an object names a key twice the last one counts.
 *
 * Files are read before anything is planned, so what they take is bounded: a text and what json-c makes of it
 * fit in the runtime reserve together, whoever wrote it. json-c takes up to 300 bytes for one of text (three
 * letters of it, "{},", are a hash table), so what it would take is counted before it begins.
 *
 * Writing builds text (base/text.h): strings escaped, bytes that are not UTF-8 replaced by U+FFFD, numbers as
 * short as they can be read back exactly, NaN and infinities as null, whatever the locale. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum { JSON_FILE_LIMIT = 1 << 20, JSON_TREE_LIMIT = 3 << 20, JSON_MAX_DEPTH = 64 };

struct json_object; /* json-c's */

/* A value and where it stands. Lives as long as its document; `key` and `inside` belong to it too. */
typedef struct {
    struct json_object *object; /* NULL: the value null */
    const char *file;           /* for sentences */
    const char *key, *inside;   /* its key or NULL; the key of what holds it or NULL */
    size_t index;               /* its place, when it is an item of an array (`item`) */
    bool item;
} json_value;

typedef struct {
    json_value root;
    char *name;
} json_document;

/* Reads a file of at most JSON_FILE_LIMIT bytes; `json_parse` the same from memory (`name` for sentences).
 * STATUS_INVALID when it cannot be read, is not JSON, saying at which byte, or would take more than
 * JSON_TREE_LIMIT. */
status json_open(const char *path, json_document *d);
status json_parse(const char *name, const char *bytes, size_t count, json_document *d);
/* The same with another bound, for what the caller has written itself. */
status json_parse_within(const char *name, const char *bytes, size_t count, uint64_t tree_limit,
                         json_document *d);
void json_close(json_document *d); /* fine on a zeroed or closed document */

/* The value itself, checked: STATUS_INVALID when it is of another type or not in [low, high]. A number
 * without a fraction (12.0, 1e3) is a whole number too. A string without zero bytes; it lives in the
 * document. */
status json_as_integer(json_value v, int64_t low, int64_t high, int64_t *out);
status json_as_number(json_value v, double low, double high, double *out);
status json_as_bool(json_value v, bool *out);
status json_as_string(json_value v, const char **out);
status json_as_object(json_value v);
status json_as_array(json_value v, size_t *count);
bool json_is_string(json_value v);
bool json_is_array(json_value v);

/* A member of an object: `json_get_…` wants it there, `json_optional_…` leaves `*out` alone when it is absent
 * or null. */
status json_get(json_value object, const char *key, json_value *out);
bool json_find(json_value object, const char *key, json_value *out); /* there, and not null */
bool json_has(json_value object, const char *key);
bool json_says(json_value object, const char *key); /* there, be it null */
status json_get_integer(json_value object, const char *key, int64_t low, int64_t high, int64_t *out);
status json_get_number(json_value object, const char *key, double low, double high, double *out);
status json_get_bool(json_value object, const char *key, bool *out);
status json_get_string(json_value object, const char *key, const char **out);
status json_optional_integer(json_value object, const char *key, int64_t low, int64_t high, int64_t *out);
status json_optional_number(json_value object, const char *key, double low, double high, double *out);
status json_optional_bool(json_value object, const char *key, bool *out);
status json_optional_string(json_value object, const char *key, const char **out);

/* Item `index` of an array; index below its count. */
json_value json_item(json_value array, size_t index);

/* The members of an object in their order: `void *cursor = NULL; while (json_next(object, &cursor,
 * &member))`. The name is member.key. */
bool json_next(json_value object, void **cursor, json_value *member);

/* Records "file: 'key' …" with the caller's end of the sentence, for rules that only the caller knows. */
status json_wrong(json_value v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes one JSON value to `out` (not owned). In an object every call gets the key, elsewhere NULL. `lines`
 * puts each member on a line of its own; without it all is one line. What cannot be written for want of
 * memory is remembered in out->failed. */
typedef struct {
    text *out;
    bool lines;
    uint32_t depth;
    uint64_t filled; /* bit d: something was written at depth d */
} json_writer;

void json_begin_object(json_writer *w, const char *key);
void json_end_object(json_writer *w);
void json_begin_array(json_writer *w, const char *key);
void json_end_array(json_writer *w);
void json_put_integer(json_writer *w, const char *key, int64_t value);
void json_put_unsigned(json_writer *w, const char *key, uint64_t value);
void json_put_number(json_writer *w, const char *key, double value);
/* With ".0" behind whole ones: transformers takes no whole number for one that may have a fraction. */
void json_put_real(json_writer *w, const char *key, double value);
void json_put_float(json_writer *w, const char *key, float value);
void json_put_bool(json_writer *w, const char *key, bool value);
void json_put_string(json_writer *w, const char *key, const char *value); /* NULL: null */
void json_put_null(json_writer *w, const char *key);

/* The quoted and escaped string alone. */
void json_add_quoted(text *out, const char *value);
