/* Strings of a Parquet file that are read again by themselves: where one stands is noted when its record is
 * read. Of a page that is not packed the string alone is read; else the page is read and unpacked, in memory
 * whose size the place says. */
#pragma once

#include "data/formats/format.h"

/* What is unpacked as one: of a page of strings or of a dictionary all but the levels of version 2. */
typedef struct {
    uint64_t start;            /* offset in the file */
    uint32_t packed, unpacked; /* bytes */
    uint32_t strings;          /* joined: where they begin in what is unpacked, */
    uint32_t values;           /* and how many there are at most */
    uint8_t codec;             /* parquet_codec */
    bool joined;               /* strings say what they have in common with the one before them */
} parquet_cell_page;

typedef struct {
    parquet_cell_page page;
    uint32_t at; /* in what is unpacked; of joined ones how many of the page come before it */
    uint32_t bytes;
} parquet_cell;

/* Bytes that reading it takes. */
uint64_t parquet_cell_scratch(const parquet_cell *c);

/* Reads it from the file, which is as it was when the place was noted: STATUS_FAILED where it is not.
 * `scratch` is aligned to 64; `*bytes`, of c->bytes bytes, lies in it. STATUS_INVALID, with the path, where
 * the page is damaged. */
status parquet_cell_read(const data_file *f, const parquet_cell *c, void *scratch,
                         const unsigned char **bytes);
