/* The file of tokens while it is made, and what lies beside it until it is whole:
 *
 *   FILE.partial   room for the header, then the tokens
 *   FILE.ends      the ends of documents
 *   FILE.learned   which tokens are learned, where not all are
 *   FILE.progress  how much of these is good, of which identity, and where in the data to go on
 *
 * A mark is set when all before it is on the disk, so whatever instant a process is killed at, the next one
 * goes on from the last mark, or begins anew where there is none. Only who made FILE.lock writes them. */
#pragma once

#include "io/lock.h"
#include "tokenize/sources.h"

typedef struct {
    uint64_t tokens, documents, learned, empty, longest; /* written before it */
    uint64_t read;                                       /* bytes of text before `next`; the caller's */
    source_place next;                                   /* in the data */
} token_mark;

enum { TOKEN_WRITER_FILES = 3 };

typedef struct {
    const char *path;
    char *names[TOKEN_WRITER_FILES], *progress;
    int files[TOKEN_WRITER_FILES]; /* -1: not open */
    lock owned;
    uint32_t width; /* bytes of a token: 2 or 4 */
    bool masks;     /* there is a list of what is learned */
    uint64_t identity;
    const uint32_t *special; /* ids that stand for no text, rising; the caller's, set before _finish */
    uint64_t special_count;
    token_mark at; /* what is written */
} token_writer;

/* The most bytes of the disk that making a file with these tokens and documents takes: all but the tokens
 * lies there twice while it is put together. */
uint64_t token_writer_disk(const token_mark *all, uint32_t width, bool masks, uint64_t special_count);

/* `at.next` says where to go on. The path must stay. STATUS_INVALID where another process writes the file.
 * Ended by token_writer_finish, _keep or _discard; after a failure nothing is open. */
status token_writer_open(token_writer *w, const char *path, uint32_t width, bool masks, uint64_t identity);

/* What a slot has made. */
typedef struct {
    const void *tokens;     /* of `width` bytes each */
    const uint8_t *learned; /* one for each, 1 or 0; NULL where there is no such list */
    uint64_t count;
    const uint64_t *ends; /* of documents, counted from the first token ever */
    uint64_t end_count;
} token_batch;
status token_writer_add(token_writer *w, const token_batch *b);

/* All that is written is good, and the data go on at `next`. */
status token_writer_mark(token_writer *w, source_place next);

/* Puts the file together, with `about` (pairs of a name and a text, ended by NULL) in its header beside the
 * identity; removes what lay beside it. */
status token_writer_finish(token_writer *w, const char *const *about, uint64_t *file_bytes);
void token_writer_keep(token_writer *w);    /* for going on */
void token_writer_discard(token_writer *w); /* removes all of it */

/* Beside a file that is made: removes what a process left that was killed at its end. What goes on for
 * another identity stays, and so does what another process is at. */
void token_writer_tidy(const char *path, uint64_t identity);

/* What the header of a file that is there says; false: it is none that this has made. */
typedef struct {
    bool whole;               /* as long as its lists */
    uint64_t identity, bytes; /* bytes: of the whole file */
    token_mark at;            /* at its end; `next` is not said */
} token_made;
bool token_writer_made(const char *path, token_made *m);
