/* What a format of documents gives, and what it may use. For this folder alone. */
#pragma once

#include "data/documents/documents.h"
#include "data/documents/input.h"

typedef struct document_reader document_reader;

struct documents {
    document_options options; /* no AUTO, no zeros that stand for something */
    const document_reader *reader;
    data_file file;
    document_place place; /* set by the reader with each RECORD */
    bool failed, inside;  /* of a record */
    status why;           /* it failed */
    char sentence[STATUS_SENTENCE];
    /* What came from the reader and is not given on yet, and the beginning of a character. */
    document_piece raw;
    bool pending;
    parquet_cell cell; /* set by the reader: see documents_cell */
    char torn[4];
    uint32_t torn_count;
    void *state; /* the reader's */
};

struct document_reader {
    const char *name;
    const char *suffixes[5]; /* ended by NULL */
    bool packs;              /* the format packs by itself, so a file of it is not packed again */
    bool many;               /* its records have columns by name */
    status (*inspect)(documents *d, document_room *room); /* lays out; may look at the file, which is open */
    status (*begin)(documents *d);                        /* with a room: up to the first record */
    status (*next)(documents *d, document_piece *p);      /* strings as they stand: any bytes, any cuts */
    status (*seek)(documents *d, document_place place);
    /* The names of a column's classes; NULL: files of this format have none. */
    status (*classes)(documents *d, uint32_t column, document_class *each, void *context);
};

extern const document_reader document_reader_text, document_reader_json, document_reader_csv,
    document_reader_parquet;

/* An input over the file of `d`, with a buffer of its piece_bytes. */
input document_input(const documents *d);

/* The column of this name; -1: not asked for. */
int document_column_find(const documents *d, const char *name, bool *is_list);

/* Is this member of a list's structs wanted? */
bool document_member_wanted(const document_column *column, const char *name);

/* "PATH, line N: WHY". */
status document_wrong_line(const documents *d, uint64_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
