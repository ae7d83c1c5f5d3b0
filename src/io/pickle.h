/* Python's pickles, protocols 2 to 5, as pure data.
 *
 * A pickle is a program for a machine with a stack. This one knows numbers, texts, None, tuples, lists and
 * dicts, and nothing else: what would import, construct or call something is refused with the byte that it
 * stands at, so reading a file of a stranger runs nothing.
 *
 * The machine keeps no tree. A dict or list that has got members is shown to the reader with them, and the
 * reader says what stands for it from then on: a number of its own kind, say. Members are gone afterwards, so
 * memory is that of the memo, which is what a pickle may come back to: 4 bytes for what can be, none for what
 * the reader let go, and 1 bit. Memo, texts and what the reader says that it holds are together bounded by
 * PICKLE_ROOM and half of what was read; room that tables grow into is beside that.
 *
 * Format: Lib/pickletools.py of CPython; the writers are Python's two and that of libtorch
 * (torch/csrc/jit/serialization/pickler.cpp). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/status.h"

typedef enum {
    PICKLE_GONE, /* the reader let it go: nothing may come back to it */
    PICKLE_NONE,
    PICKLE_BOOL,     /* bits: 0, 1 */
    PICKLE_INTEGER,  /* bits: the number, 0 or more */
    PICKLE_NEGATIVE, /* bits: the number, of two's complement */
    PICKLE_FLOAT,    /* bits: those of a double */
    PICKLE_TEXT,     /* bits: its number, see pickle_texts */
    PICKLE_TUPLE,    /* bits: 0 where all numbers in it are, else what they mix to; the rest is gone */
    PICKLE_LIST,     /* bits: its number, counted up */
    PICKLE_DICT,
    PICKLE_OWN /* the first of the reader's own kinds */
} pickle_kind;

enum {
    PICKLE_KINDS = 32,              /* kinds, the reader's too */
    PICKLE_BITS = 27,               /* of a number that is kept in the memo */
    PICKLE_TEXT_MOST = 1 << 20,     /* bytes of a text */
    PICKLE_DEPTH = 64,              /* of marks */
    PICKLE_ITEMS = 1024,            /* of a list that is longer are shown before it ends */
    PICKLE_WAITING = 256,           /* of these, the last are shown later */
    PICKLE_STACK = 1 << 16,         /* values at once */
    PICKLE_ROOM = 64 * 1024 * 1024, /* bytes of tables, beside half of what was read */
};

typedef struct {
    uint64_t bits;
    uint32_t memo; /* where the memo has it, from 1; 0: nowhere */
    uint8_t kind;
} pickle_value;

/* Texts, each once, by number. */
typedef struct {
    array bytes, starts; /* char; uint32_t: text i is bytes[starts[i] .. starts[i + 1]) and a zero */
    uint32_t *table, room;
} pickle_texts;

status pickle_texts_open(pickle_texts *t);
void pickle_texts_close(pickle_texts *t); /* fine on a zeroed one */
/* The number of the text, from 1. */
status pickle_texts_add(pickle_texts *t, const char *bytes, size_t count, uint32_t *number);
const char *pickle_texts_at(const pickle_texts *t, uint32_t number); /* "" of 0 */
size_t pickle_texts_length(const pickle_texts *t, uint32_t number);
static inline uint64_t pickle_texts_bytes(const pickle_texts *t) { /* with where each begins, and the table */
    return t->bytes.count + 8ull * t->starts.count;
}

/* Where bytes come from: up to `room` of them, 0 at the end. */
typedef struct {
    status (*read)(void *from, void *into, size_t room, size_t *got);
    void *from;
    const char *path; /* for sentences */
} pickle_source;

/* Who is shown what. A dict's pairs are key, value, key, value; `count` counts both. `*dict` and `*list` may
 * be changed. Of a dict or list with many members the same one comes several times. */
typedef struct {
    status (*pairs)(void *context, const pickle_value *pairs, size_t count, pickle_value *dict);
    status (*items)(void *context, const pickle_value *items, size_t count, pickle_value *list);
    void *context;
    uint32_t kept;                   /* bit per kind of the reader's own that the memo keeps */
    uint64_t (*held)(void *context); /* bytes that the reader has made of it; NULL: not counted */
} pickle_reader;

/* Reads one pickle, behind which nothing may follow; `*root` is what stands for the whole, `*read` how many
 * bytes it has (either may be NULL). STATUS_INVALID, with the byte, for what is cut, damaged, or no data. */
status pickle_read(const pickle_source *source, const pickle_reader *reader, pickle_texts *texts,
                   pickle_value *root, uint64_t *read);
