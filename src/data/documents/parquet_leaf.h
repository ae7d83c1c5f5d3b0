/* The strings of one column of a Parquet file, or its numbers as letters, one after the other: pages are
 * unpacked whole, into memory that the largest of them takes. How large that is, a walk over the headers of
 * all pages says before. */
#pragma once

#include "data/documents/parquet_cells.h"
#include "data/documents/parquet_codes.h"
#include "data/documents/parquet_numbers.h"
#include "data/documents/unpack.h"

/* What the largest pages take. */
typedef struct {
    uint64_t page, dictionary; /* bytes, unpacked */
    uint64_t entries;          /* of a dictionary */
    uint64_t joined;           /* bytes for strings that are put together from parts of others */
} parquet_leaf_need;

/* Shared by all leaves, used while a page is unpacked. */
typedef struct {
    uint64_t packed; /* bytes of the largest page */
    uint64_t unpacking[PARQUET_CODECS];
} parquet_shared_need;

typedef struct {
    unsigned char *packed;
    void *unpacking;
} parquet_shared;

typedef struct {
    const documents *of;
    const parquet_column *column;
    const parquet_shared *shared;
    parquet_leaf_need need;
    parquet_chunk chunk;
    uint64_t group; /* for sentences */
    unsigned char *dictionary, *page, *joined;
    uint32_t *entries;      /* where they begin in the dictionary */
    uint32_t entry_count;   /* of this chunk's */
    uint64_t next, page_at; /* offsets in the file: of the next page, of this one */
    uint64_t chunk_left;    /* values of the chunk that are in no page yet */
    uint32_t page_left;     /* values of the page */
    parquet_hybrid repetition, definition, places;
    int64_t encoding;
    const unsigned char *at, *end;   /* plain values; the bytes of delta strings */
    parquet_delta lengths, prefixes; /* lengths: or the numbers themselves */
    int64_t number;                  /* the last one, and its letters */
    char letters[PARQUET_LETTERS];
    uint32_t joined_bytes; /* of the last string */
    parquet_cell_page part, dictionary_part;
    const unsigned char *part_begins; /* in the page */
    uint32_t taken;                   /* strings of the page */
    bool peeked;
    uint32_t repetition_level, definition_level; /* of the value that comes */
} parquet_leaf;

/* Adds what the pages of a chunk take. */
status parquet_leaf_measure(const documents *d, const parquet_chunk *chunk, parquet_leaf_need *need,
                            parquet_shared_need *shared);

/* Begins with a chunk; of, column, shared, need and the memory are set. */
void parquet_leaf_begin(parquet_leaf *l, const parquet_chunk *chunk, uint64_t group);

/* The levels of the next value, which stays; `*there` is false behind the last one of the chunk. */
status parquet_leaf_peek(parquet_leaf *l, bool *there);

/* Takes the value that was peeked, which is there by its level; good until the next page of this leaf, or its
 * next value. `*bytes` is NULL for one that is not there. */
status parquet_leaf_take(parquet_leaf *l, const char **bytes, uint32_t *count);

/* Where the string stands that was taken last. */
parquet_cell parquet_leaf_cell(const parquet_leaf *l, const char *bytes, uint32_t count);

const unpacker *parquet_unpacker(parquet_codec codec); /* NULL: of what isn't packed */

/* "PATH, row group 2, column messages.role, page at byte 17: …" */
status parquet_leaf_wrong(const parquet_leaf *l, const char *why);
