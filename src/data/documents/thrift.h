/* Thrift's compact protocol, as far as Parquet is written in it, read out of a stretch of a file through a
 * small buffer. The caller walks over the fields and takes what it knows; all else is passed over. What is
 * wrong is said with the byte: "PATH: the footer is wrong at byte 12: …", STATUS_INVALID.
 *
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md */
#pragma once

#include "data/formats/format.h"

enum { THRIFT_BUFFER = 512, THRIFT_DEPTH = 16 };

typedef enum {
    THRIFT_STOP = 0, /* no field: the struct ends */
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12
} thrift_type;

typedef struct {
    const data_file *file;
    const char *what;   /* "the footer" */
    uint64_t next, end; /* offsets in the file: of what is read next, behind the stretch */
    uint32_t at, have;
    unsigned char buffer[THRIFT_BUFFER];
} thrift;

typedef struct {
    thrift_type type;
    int32_t id;
} thrift_field;

void thrift_begin(thrift *t, const data_file *file, const char *what, uint64_t start, uint64_t end);
uint64_t thrift_place(const thrift *t); /* of the next byte */

/* The next field of a struct; `*f` is the one before it, or zeroes. */
status thrift_next(thrift *t, thrift_field *f);
/* A number of I16 to I64, in [low, high]; `f` says which type it has. */
status thrift_whole(thrift *t, const thrift_field *f, int64_t low, int64_t high, int64_t *value);
status thrift_bool(thrift *t, const thrift_field *f, bool *value);
/* Of a list, `count` items of `type` follow; STATUS_INVALID for other items, where there are any. */
status thrift_list(thrift *t, const thrift_field *f, thrift_type type, uint32_t *count);
/* A text, with a zero behind it; a longer one is cut to what `bytes` hold, and `*cut` says so. */
status thrift_text(thrift *t, const thrift_field *f, char *to, uint32_t bytes, bool *cut);
/* A text of any length, passed over: where it stands in the file. */
status thrift_place_of_text(thrift *t, const thrift_field *f, uint64_t *start, uint64_t *end);
/* Passes over the value of a field. */
status thrift_skip(thrift *t, const thrift_field *f);

status thrift_wrong(const thrift *t, const char *why);
