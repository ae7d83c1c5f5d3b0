/* What stands at the end of a Parquet file: which columns it has, and where the parts of each row group are.
 * The footer may be of any length: it is walked through a small buffer, and of it are kept the leaves that
 * are wanted and the place of the next row group.
 *
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift */
#pragma once

#include "data/documents/reader.h"
#include "data/documents/thrift.h"

enum { PARQUET_LEAVES = 64 };

typedef enum {
    PARQUET_UNPACKED = 0,
    PARQUET_SNAPPY = 1,
    PARQUET_GZIP = 2,
    PARQUET_ZSTD = 6,
    PARQUET_CODECS = 8
} parquet_codec;

/* What a leaf's values are; numbers come as letters. */
typedef enum {
    PARQUET_STRING,
    PARQUET_BOOL,
    PARQUET_I32,
    PARQUET_I64,
    PARQUET_U32,
    PARQUET_U64,
    PARQUET_F32,
    PARQUET_F64
} parquet_kind;

/* A column of strings or numbers that is wanted, alone or in a list of structs. The levels at which something
 * is there: of a string alone `value_level` only. */
typedef struct {
    uint32_t number; /* among all leaves of the file, in the order of the schema */
    uint32_t column; /* of the options' */
    parquet_kind kind;
    bool is_list;
    uint32_t list_level;        /* the list is no null */
    uint32_t item_level;        /* it has an item */
    uint32_t struct_level;      /* which is no null */
    uint32_t value_level;       /* and has the string: the largest definition level */
    char member[DOCUMENT_NAME]; /* of a list's structs, or of document_options.bytes; else empty */
} parquet_column;

/* Where a leaf lies in a row group. */
typedef struct {
    uint64_t start, end; /* offsets in the file */
    uint64_t values;     /* nulls included */
    parquet_codec codec;
} parquet_chunk;

typedef struct {
    const documents *of;
    parquet_column leaves[PARQUET_LEAVES];
    uint32_t leaf_count;
    uint32_t all_leaves;         /* of the file */
    uint64_t footer, footer_end; /* offsets in the file */
    uint64_t first_group;        /* offset of the first row group's description */
    uint32_t group_count;
    uint64_t classes, classes_end; /* offsets of JSON that names classes; 0: there is none */
    thrift reading;                /* one at a time */
} parquet_file;

/* Reads the footer. STATUS_INVALID where it is damaged, encrypted, or has not the columns that are wanted. */
status parquet_file_open(parquet_file *p, const documents *d);

/* The row group described at `*at` (at first p->first_group), which moves on to the next one. */
status parquet_group_read(parquet_file *p, uint64_t *at, parquet_chunk chunks[PARQUET_LEAVES],
                          uint64_t *rows);
