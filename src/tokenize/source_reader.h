/* Records of the data from any of them on. */
#pragma once

#include "tokenize/sources.h"

/* Reads one file after the other. `room` is reader_bytes, aligned to 64. */
typedef struct {
    const sources *of;
    void *room;
    documents *open; /* NULL: none is */
    uint32_t file;   /* that is read; file_count: all have been */
} source_reader;

source_reader source_reader_begin(const sources *s, void *room);
status source_reader_seek(source_reader *r, source_place place);
/* The next piece, of any file: DOCUMENT_END comes once, behind the last file. */
status source_reader_next(source_reader *r, document_piece *p);
/* The next record, as documents_gather gives it. */
status source_reader_gather(source_reader *r, void *room, uint64_t bytes, document_record *record,
                            bool *more);
/* Of the record that is being read, or comes next. */
source_place source_reader_place(const source_reader *r);
void source_reader_close(source_reader *r);
