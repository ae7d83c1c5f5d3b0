/* The texts of a file of JSON lines, one run of bytes after the other, through a small buffer.
 *
 * Each line is an object with a text under "text"; its other members are passed over, blank lines too. The
 * text of a record is followed by one newline. A run never ends inside an escape or a character, so reading
 * can begin anew at any of them. */
#pragma once

#include "data/formats/format.h"

enum { JSONL_BUFFER = 16 << 10, JSONL_DEPTH = 64 };

typedef enum { JSONL_LINE, JSONL_TEXT, JSONL_REST } jsonl_place;

typedef struct {
    const data_file *file;
    char *buffer;
    uint32_t at, end;  /* what of the buffer is read and not yet taken */
    uint64_t next;     /* offset in the file of what comes into the buffer next */
    uint64_t line;     /* 0: begun in the middle, where nobody knows */
    jsonl_place place; /* at the start of a line, inside of a text, behind it */
    char made[4];      /* the bytes of an escape */
} jsonl_reader;

/* Bytes of texts; `offset` is where they stand in the file. No bytes: the end. */
typedef struct {
    const char *bytes;
    uint32_t count;
    uint64_t offset;
    bool ends; /* the record, with these bytes */
} jsonl_run;

/* From the beginning, or from the offset of a run. `buffer` has JSONL_BUFFER bytes. */
jsonl_reader jsonl_reader_begin(const data_file *f, void *buffer);
jsonl_reader jsonl_reader_at(const data_file *f, uint64_t offset, void *buffer);

/* STATUS_INVALID with file and line for what is no such record. */
status jsonl_reader_next(jsonl_reader *r, jsonl_run *run);
