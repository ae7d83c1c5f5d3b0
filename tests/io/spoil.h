/* A JSON text that is right, with one of its values replaced or left out. Every value of it has its turn,
 * members of objects and items of lists at any depth, so a test of a reader needs no list of keys. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SPOIL_VALUES = 1024, SPOIL_KEY = 64, SPOIL_BYTES = 1 << 16 };

typedef struct {
    const char *key;         /* with its quotes; NULL: an item, or the document */
    const char *begin, *end; /* the value */
    int above;               /* the object or list that it stands in; -1: none */
} spoil_value;

typedef struct {
    const char *json;
    spoil_value at[SPOIL_VALUES]; /* the first is the document */
    int count;
} spoil_text;

static inline const char *spoil_blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

static inline const char *spoil_string_end(const char *at) {
    for (at++; *at != '"'; at++)
        if (*at == '\\') at++;
    return at + 1;
}

/* Behind the value that begins at `at`. */
static inline const char *spoil_walk(spoil_text *t, const char *at, const char *key, int above) {
    int own = t->count++;
    assert(own < SPOIL_VALUES);
    t->at[own] = (spoil_value){ .key = key, .begin = at, .above = above };
    if (*at == '{' || *at == '[') {
        bool object = *at == '{';
        for (at = spoil_blanks(at + 1); *at != '}' && *at != ']';) {
            const char *name = object ? at : NULL;
            if (object) at = spoil_blanks(spoil_blanks(spoil_string_end(at)) + 1);
            at = spoil_blanks(spoil_walk(t, at, name, own));
            if (*at == ',') at = spoil_blanks(at + 1);
        }
        at++;
    } else {
        at = *at == '"' ? spoil_string_end(at) : at + strcspn(at, ",]} \t\r\n");
    }
    return t->at[own].end = at;
}

static inline void spoil_read(spoil_text *t, const char *json) {
    t->json = json, t->count = 0;
    spoil_walk(t, spoil_blanks(json), NULL, -1);
}

/* The key of value i, or of the nearest around it that has one; "": the document. */
static inline const char *spoil_key(const spoil_text *t, int i, char key[SPOIL_KEY]) {
    while (t->at[i].above >= 0 && !t->at[i].key) i = t->at[i].above;
    const char *name = t->at[i].key ? t->at[i].key + 1 : "\"";
    snprintf(key, SPOIL_KEY, "%.*s", (int)strcspn(name, "\""), name);
    return key;
}

static inline const char *spoil_put(const spoil_text *t, const char *from, const char *with, const char *to) {
    static char spoiled[SPOIL_BYTES];
    int n = snprintf(spoiled, sizeof spoiled, "%.*s%s%s", (int)(from - t->json), t->json, with, to);
    assert(n < (int)sizeof spoiled);
    (void)n;
    return spoiled;
}

static inline const char *spoil_replaced(const spoil_text *t, int i, const char *with) {
    return spoil_put(t, t->at[i].begin, with, t->at[i].end);
}

/* Without the member or item, and without a comma of it. */
static inline const char *spoil_left_out(const spoil_text *t, int i) {
    const char *from = t->at[i].key ? t->at[i].key : t->at[i].begin, *to = spoil_blanks(t->at[i].end);
    if (*to == ',') return spoil_put(t, from, "", to + 1);
    while (strchr(" \t\r\n", from[-1])) from--;
    return spoil_put(t, from[-1] == ',' ? from - 1 : from, "", t->at[i].end);
}

static inline bool spoil_is_number(const spoil_value *v) { return strchr("-0123456789", *v->begin) != NULL; }
static inline bool spoil_is_word(const spoil_value *v) { return *v->begin == 't' || *v->begin == 'f'; }
static inline bool spoil_is_null(const spoil_value *v) { return *v->begin == 'n'; }

/* A value that no reader can take for this one: text for a number or a list, a number for anything else. */
static inline const char *spoil_other(const spoil_value *v) {
    return spoil_is_number(v) || *v->begin == '[' ? "\"odd\"" : "7";
}
