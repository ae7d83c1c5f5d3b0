/* The values that a template computes with, as Python has them, in the arena of one rendering. Nothing
 * changes once it is made but namespaces and streams (the sandbox lets nothing else be changed).
 *
 * Each value says where it is from: its origin. Of a text that was put together, spans say it piece by piece;
 * bytes in no span are from the template. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/template/arena.h"
#include "text/template/node.h"

/* An origin: 0 is the template, else the message's place + 1, which part of it, and is it marked by
 * {% generation %}. */
typedef uint32_t value_origin;
enum {
    ORIGIN_MARKED = 1,
    ORIGIN_TURN = 0 << 1, /* the template's own text, while it goes through this message */
    ORIGIN_ROLE = 1 << 1, /* the message's role */
    ORIGIN_SAID = 2 << 1, /* whatever else the message holds */
    ORIGIN_PART = 3 << 1,
    ORIGIN_QUOTED = 1 << 3, /* written while the template goes through another message */
    ORIGIN_SHIFT = 4
};

typedef enum {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_NUMBER,
    VALUE_TEXT, /* flag: it is safe, as Markup is */
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_VIEW, /* of a dict; flag: VIEW_... */
    VALUE_RANGE,
    VALUE_STREAM, /* what Python's generators and iterators are: gone through once */
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION, /* flag: FUNCTION_... */
    VALUE_METHOD
} value_kind;

enum { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

typedef struct {
    uint32_t begin, end; /* bytes of the text */
    value_origin origin; /* not 0 */
} value_span;

typedef struct {
    const char *bytes;
    uint32_t length, points; /* bytes, letters */
    const value_span *spans; /* in order; NULL: all of it is of the value's own origin */
    uint32_t span_count;
} value_text;

typedef struct value value;
typedef struct {
    value *items;
    uint32_t count;
} value_list;

typedef struct {
    value *keys, *values;
    uint32_t count, room;
    value_origin message; /* not 0: it is this message, ORIGIN_TURN */
} value_dict;

typedef struct {
    int64_t start, stop, step, count;
} value_range;

typedef struct stream stream;
typedef struct loop loop;
typedef struct macro macro;
typedef struct method method;

struct value {
    uint8_t kind, flag;
    value_origin origin;
    union {
        const char *missing; /* what an undefined one says of itself */
        bool yes;
        int64_t integer;
        double number;
        const value_text *text;
        const value_list *list;
        value_dict *dict;
        const value_range *range;
        stream *stream;
        loop *loop;
        const macro *macro;
        const method *method;
    };
};

typedef struct run run;
typedef struct builder builder;

static inline value value_none(void) { return (value){ .kind = VALUE_NONE }; }
static inline value value_bool(bool yes) { return (value){ .kind = VALUE_BOOL, .yes = yes }; }
static inline value value_integer(int64_t n) { return (value){ .kind = VALUE_INTEGER, .integer = n }; }
static inline value value_number(double x) { return (value){ .kind = VALUE_NUMBER, .number = x }; }
static inline value value_undefined(const char *missing) {
    return (value){ .kind = VALUE_UNDEFINED, .missing = missing };
}

/* ---- texts ---- */

/* A text of its own; `bytes` are copied, or live as long as the rendering (`lend`). */
status value_text_copy(run *r, const char *bytes, size_t n, value *out);
status value_text_lend(run *r, const char *bytes, size_t n, value *out);
/* Bytes [begin, end) of a text, between letters. */
status value_part(run *r, const value *text, size_t begin, size_t end, value *out);
/* The first span that ends behind this byte, or span_count. */
uint32_t value_span_at(const value_text *t, size_t byte);
value_origin value_origin_at(const value *text, size_t byte);
/* Where letter `n` (0 … points) begins. */
size_t value_letter(const value *text, size_t n);
bool value_is_word(const value *text, const char *word);
/* The letter at `s`, which is one; its length in bytes. */
uint32_t value_point(const char *s, unsigned long *point);

/* ---- containers ---- */

status value_list_new(run *r, value_kind kind, uint32_t count, value *out); /* items to be filled in */
status value_dict_new(run *r, uint32_t room, value *out);
bool value_is_key(const value *v); /* may it be one of a dict? */
/* The place of a key, or dict->count. STATUS_INVALID for what is no key. */
status value_dict_find(run *r, const value_dict *d, const value *key, uint32_t *place);
status value_dict_set(run *r, value_dict *d, const value *key, const value *item);
/* By a word, without a sentence: NULL when it is not there. */
const value *value_dict_word(const value_dict *d, const char *word, size_t length);
/* The number of items, of what has a length; false: it has none. */
bool value_length(const value *v, int64_t *count);
/* Item `i` (0 ...) of a list, tuple, range, view or text. */
status value_item(run *r, const value *v, int64_t i, value *out);

/* ---- what Python says of them ---- */

bool value_true(const value *v);
const char *value_type(const value *v); /* as Python calls it */
status value_equal(run *r, const value *a, const value *b, bool *equal);
/* -1, 0, 1; 2: not a number is among them. STATUS_INVALID for what has no order. */
status value_order(run *r, const value *a, const value *b, int *order);
status value_in(run *r, const value *a, const value *in, bool *is);
/* str() and repr(), onto the end of `b`; value_show makes a text of it. */
status value_add_shown(run *r, builder *b, const value *v);
status value_add_repr(run *r, builder *b, const value *v);
status value_show(run *r, const value *v, value *out);
/* A number as repr() has it; `out` has room for VALUE_NUMBER_BYTES. */
enum { VALUE_NUMBER_BYTES = 40 };
void value_number_text(double x, char *out);
/* The failure that using something undefined is. */
status value_missing(const value *v);
