/* How tokens stand in a file, one format a file of this folder.
 *
 * A format looks at an open file once (inspect) and then gives any run of its tokens (read), through pread
 * into memory of the caller's. Nothing is mapped, and a file that is written to under the run gives a
 * sentence, not other tokens: what was read before is right, and no read after it succeeds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/source.h"

typedef enum {
    DATA_KIND_AUTO, /* by the name of the file */
    DATA_KIND_BYTES,
    DATA_KIND_U16,
    DATA_KIND_U32,
    DATA_KIND_NPY,
    DATA_KIND_JSONL,
    DATA_KIND_TOKENS,
    DATA_KINDS
} data_kind;

/* "auto", "bytes", "u16" ...; `name` is the option, for the sentence. AUTO goes by the name of the file. */
status data_kind_parse(const char *word, const char *name, data_kind *kind);
const char *data_kind_name(data_kind kind);
const char *data_kind_about(data_kind kind); /* "text read as bytes" */

/* A place in a file from which its tokens can be read on. */
typedef struct {
    uint64_t token, offset;
} data_mark;

/* Which state of which file this is: whoever writes to it sets its time before its bytes can be read. */
typedef struct {
    uint64_t device, inode;
    int64_t seconds, nanoseconds; /* of its last change */
    uint64_t bytes;
} data_stamp;

/* A file of a source. */
typedef struct {
    char *path;
    int handle;       /* -1: opened for each read */
    data_stamp stamp; /* when it was opened */
    uint64_t bytes;   /* its length */
    uint64_t start;   /* where its tokens begin in the whole */
    uint64_t tokens;  /* set by inspect, as is what follows */
    uint64_t documents;
    uint64_t ceiling; /* every id is below: where the vocabulary has as many, none need be looked at */
    uint64_t offset;  /* of the first token, where tokens are items of one size */
    uint32_t width;
    bool is_signed;
    data_mark *marks; /* where they are not; memory_free them */
    uint64_t mark_count;
    uint64_t ends, learned; /* of a file made by snug tokenize: offsets, see token_file.c; 0: none */
    uint32_t *special;      /* ids that stand for no text, rising; memory_free them */
    uint64_t special_count;
    uint64_t longest;        /* document, in tokens; 0: nobody knows */
    uint64_t first_document; /* its number in the whole */
} data_file;

/* Where the ids go that are read: one sample, its labels the tokens one place on, or, `in_place`, the tokens
 * themselves where they may be hidden (data/masking.h). Without `tokens` they are
 * only compared with the vocabulary. With `segments` documents are told apart: the number of each token's,
 * and with `positions` its place there; no document's end has the next one's beginning as a label. */
typedef struct {
    int32_t *tokens, *labels;      /* (T), (T) */
    int32_t *segments, *positions; /* (T), (T); may be NULL */
    int32_t first_position;        /* of a document, or of what stands of it in the sample */
    int32_t segment, position;     /* of the next id */
    bool begins;                   /* a document does, with the next id */
    bool in_place;
    uint32_t context, at; /* T; how many ids have come: at most T+1 */
    uint32_t vocabulary;
    void *scratch;
    uint64_t scratch_bytes;
} data_window;

typedef struct {
    const char *name, *about; /* "u16"; what people are told the data is */
    const char *suffixes[3];  /* ended by NULL; names that end so are of this format */
    bool is_text;             /* its tokens are bytes of text, of which a tokenizer would make others; its
                                 files are documents, or hold some */
    bool says_lengths;        /* `longest` may be known: else nobody need look for it */
    uint32_t scratch_bytes;   /* that a read wants; 0: a sample as it stands in the file */

    /* `asked`: the user named the format, so what the bytes look like is no argument. */
    status (*inspect)(data_file *f, bool asked);
    status (*read)(const data_file *f, uint64_t first, uint64_t count, data_window *to);
} data_format;

extern const data_format format_bytes, format_u16, format_u32, format_npy, format_jsonl, format_tokens;

const data_format *format_of(data_kind kind); /* not of AUTO */
data_kind format_by_name(const char *path);   /* BYTES for a name that says nothing */

/* The state of an open file; false: it has none. */
bool format_stamp(int handle, data_stamp *stamp);
bool format_stamp_equal(const data_stamp *a, const data_stamp *b);

/* Exactly `bytes` bytes from `offset` on; STATUS_FAILED when the device fails, or the file is no longer what
 * it was when it was opened: longer, shorter, written to or replaced. */
status format_pread(const data_file *f, uint64_t offset, void *into, uint64_t bytes);

/* Ids as items of file->width bytes from file->offset on. */
status format_read_items(const data_file *f, uint64_t first, uint64_t count, data_window *to);

/* "…: token 5 is 70000, but the vocabulary has 50257 ids …"; STATUS_INVALID. */
status format_wrong_id(const data_file *f, uint64_t token, uint64_t id, bool negative, uint32_t vocabulary);

/* The next id is the first of a document. */
static inline void format_begin(data_window *to) { to->begins = to->segments != NULL; }

/* `learned`: the id may be a label. */
static inline void format_put_as(data_window *to, int32_t id, bool learned) {
    bool other = to->begins && to->at > 0;
    if (other) to->segment++, to->position = 0;
    if (to->at < to->context) {
        to->tokens[to->at] = id;
        if (to->segments) to->segments[to->at] = to->segment;
        if (to->positions) to->positions[to->at] = to->first_position + to->position++;
    }
    if (to->in_place && to->at < to->context) to->labels[to->at] = learned ? id : DATA_IGNORED_LABEL;
    if (!to->in_place && to->at > 0) to->labels[to->at - 1] = other || !learned ? DATA_IGNORED_LABEL : id;
    to->begins = false;
    to->at++;
}
static inline void format_put(data_window *to, int32_t id) { format_put_as(to, id, true); }

/* Of a file that says where its documents end: how many tokens it has up to the ends of documents `first` to
 * `first` + count - 1. */
status format_ends(const data_file *f, uint64_t first, uint32_t count, uint64_t *ends);
/* Reads tokens of such a file, of which the first is one of that document: it need not be looked for. */
status format_read_documents(const data_file *f, uint64_t document, uint64_t first, uint64_t count,
                             data_window *to);
