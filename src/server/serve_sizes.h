/* What a server holds beside its engine, in bytes, before any of it is asked for: a function of its options,
 * the model's tokenizer and the longest text. */
#pragma once

#include "server/serve.h"

/* What the tokens of a model are as words, once all were looked at. */
typedef struct {
    uint64_t told;       /* bytes that are told of one with its logarithms, at most */
    uint64_t vocabulary; /* that masks for answers by a schema hold; 0: there are no such answers */
    uint64_t letters;    /* of these the words */
    int64_t vector;      /* numbers of an embedding; 0: there are none */
    bool answers;        /* a prompt and what is written have a text's length each */
} serve_words;

/* Of the block that a server allocates once. */
typedef struct {
    uint64_t words;   /* of a prompt as text, at most */
    uint64_t body;    /* of a body, at most */
    uint64_t room;    /* for a body's values */
    uint64_t ring;    /* of an answer on its way */
    uint64_t jobs;    /* how many: texts at once and those that wait */
    int64_t pages;    /* that bodies and long answers share */
    uint64_t job;     /* with its ids and its ring */
    uint64_t numbers; /* of a job: logarithms of its tokens, or its vector */
    uint64_t vocabulary;
    uint64_t reading; /* what one body is read with */
} serve_sizes;

/* The longest of the names that answers may say. */
const char *serve_sizes_name(const serve_options *o);
/* The list of models has room where a piece of so many bytes has it. */
uint32_t serve_sizes_list(const serve_options *o, const language *l);

/* Of a job, with those of its prompt. */
uint64_t serve_sizes_ids(int64_t text_length, const serve_words *w);
serve_sizes serve_sizes_of(const serve_options *o, int64_t texts, int64_t text_length, const language *l,
                           const serve_words *w);
uint64_t serve_sizes_block(const serve_sizes *s);
serve_held serve_sizes_held(const serve_options *o, const serve_sizes *s, const language *l,
                            const serve_words *w);
uint64_t serve_sizes_sum(const serve_held *h); /* their sum */

static inline uint64_t serve_sizes_rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
