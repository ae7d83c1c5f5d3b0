/* snug tokenize: documents become one file of tokens (data/formats/token_file.c), once, in memory that is
 * known before it begins and that does not grow with the data.
 *
 * The data are read twice. The first reading (tokenize_look) checks all of them, counts what memory depends
 * on and takes their digest; so what is wrong with a file shows before anything is written. The second one
 * works in rounds: each thread has a slot (slot.h), the slots are filled one after the other, made into
 * tokens at once, and written in their order. So the file is the same bytes for any number of threads.
 *
 * It goes on where it was stopped or killed: what was written lies beside FILE with a note of how far it is
 * good (token_writer.h), and is taken where the identity is the same: that of the data, the tokenizer and all
 * options that decide a token. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/wanted_tokens.h"
#include "tokenize/sources.h"

typedef enum {
    TOKENIZE_LEARN_ANSWERS, /* completions, and what a template says of messages; all of a text */
    TOKENIZE_LEARN_ALL
} tokenize_learn;

typedef struct {
    uint64_t read, bytes;       /* of text, of all there are; 0 of all: the first reading counts them, and
                                   `read` is what it passed over (source_watch) */
    uint64_t from;              /* of `read`: what an earlier run had read */
    uint64_t documents, tokens; /* written so far */
    double seconds;
} tokenize_progress;

/* What is known before anything is written. */
typedef struct {
    source_kind kind;
    source_counts counts;
    uint64_t identity;  /* of what the file will say */
    int threads;        /* that fit */
    uint64_t bytes;     /* of memory that the process takes, at most */
    uint32_t grown;     /* how often a text wanted more than that, and it was planned again */
    uint64_t tokenizer; /* of these: its tables, and the template */
    uint64_t disk;      /* while the file is made (token_writer_disk), if every byte of text were a token:
                           templates and normal forms may make more of them, most texts far fewer */
    uint32_t token_bytes;
    const wanted_tokens *wanted; /* what became of `add`; as long as it is open */
} tokenize_plan;

typedef struct {
    const char *model; /* a directory with a tokenizer.json */
    text_list add;     /* tokens that it is to know besides (io/wanted_tokens.h) */
    source_options data;
    tokenize_learn learn;
    int threads;     /* 0: all there are */
    uint64_t memory; /* bytes that the process may take; 0: any. Threads give way first */
    const char *out; /* the file */
    void (*progress)(void *context, const tokenize_progress *p); /* now and then; may be NULL */
    /* The plan is another one, since a text had no room in it, as `why` says; may be NULL. */
    void (*grown)(void *context, const tokenize_plan *p, const char *why);
    void *context;
    const volatile sig_atomic_t *stop; /* may be NULL */
} tokenize_options;

/* Closed by tokenize_close. */
typedef struct tokenize tokenize;

/* Opens the tokenizer, reads all data once and plans. STATUS_INVALID for data, columns or a directory that
 * are not as they should be; STATUS_NO_FIT where one thread does not fit `memory`; STATUS_INTERRUPTED where
 * it was asked to stop. Close in any case. */
status tokenize_open(const tokenize_options *o, tokenize **t);
const tokenize_plan *tokenize_planned(const tokenize *t);
void tokenize_close(tokenize *t); /* NULL is fine */

typedef struct {
    uint64_t documents, tokens, learned; /* learned: tokens that a model learns to write */
    uint64_t empty;                      /* documents without a token, which are left out */
    uint64_t longest;                    /* document, in tokens */
    uint64_t resumed;                    /* documents that were there */
    uint64_t file_bytes;
    uint64_t peak_bytes; /* of memory that was taken, the program's own as it is planned */
    double seconds;
} tokenize_result;

/* STATUS_FAILED where the disk fails or is full and STATUS_INTERRUPTED where it was asked to stop, with what
 * is there kept for going on; STATUS_INVALID for a record that has no place among tokens (a template that
 * refuses it), and then nothing is kept; STATUS_NO_FIT where a text can't be made into tokens within the
 * memory there is. */
status tokenize_run(tokenize *t, tokenize_result *r);

/* Is `path` a file that says it is of this identity? Then `*r` is what making it came to, but for time and
 * memory, which are 0. Whatever can't be read is none. */
bool tokenize_is_made(const char *path, uint64_t identity, tokenize_result *r);
/* Removes what is left beside it of its making (token_writer_tidy). */
void tokenize_tidy(const char *path, uint64_t identity);
