/* The files that tokens are read from: one, or those of a folder, their tokens numbered through.
 *
 * A folder's regular files come in the order of their names (bytewise); hidden, empty and further folders are
 * left out. All are of one format (data/formats/). */
#pragma once

#include "data/formats/format.h"

typedef struct {
    char *path;       /* as it was named */
    data_file *files; /* in order of start */
    uint32_t count, capacity;
    uint32_t users; /* parts of it that are open */
    data_kind kind;
    const data_format *format;
    uint32_t width;   /* of the widest token */
    uint64_t ceiling; /* every id is below */
    uint64_t tokens, documents, held_bytes;
    uint64_t longest;  /* document, in tokens; 0: nobody knows */
    bool learns_some;  /* not all tokens are labels */
    bool says_special; /* and some stand for no text */
} corpus;

/* STATUS_INVALID with a sentence when the path is missing, unreadable, damaged or empty. For one user; each
 * of them ends with corpus_close. */
status corpus_open(const char *path, data_kind kind, corpus **c);
void corpus_close(corpus *c); /* NULL is fine */

/* Of which format the files at the path are by their names, or as `wanted` says; AUTO for a folder without
 * any. None is opened. */
status corpus_kind(const char *path, data_kind wanted, data_kind *kind);

/* `count` tokens from `token` on of the whole, over as many files as that takes. */
status corpus_read(const corpus *c, uint64_t token, uint64_t count, data_window *to);

/* Do the files say where each document ends? Then: how many tokens of the whole there are up to the ends of
 * documents `first` to `first` + count - 1. */
bool corpus_says_ends(const corpus *c);
status corpus_ends(const corpus *c, uint64_t first, uint32_t count, uint64_t *ends);
/* And then: corpus_read from a token of that document on. */
status corpus_read_documents(const corpus *c, uint64_t document, uint64_t token, uint64_t count,
                             data_window *to);
