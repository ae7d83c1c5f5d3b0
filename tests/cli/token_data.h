/* Documents and model directories for tests of files of tokens, and what such a file must hold. What fails
 * fails the test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/tokenizer.h"

enum { TOKENS_MOST = 3 << 20 }; /* in a document of these tests */

/* ---- model directories and documents ---- */

/* A small Llama with a tokenizer of tests/text/golden, an end token and a chat template. */
void tokens_model(const char *folder, const char *kind);
/* JSON lines of `count` texts of fewer than `longest` words, of pairs, or of chats with these names of
 * members. */
void tokens_texts(const char *path, uint64_t count, uint32_t longest, uint64_t seed);
void tokens_pairs(const char *path, uint64_t records, uint64_t seed);
void tokens_chats(const char *path, uint64_t records, const char *const names[3], uint64_t seed);
/* Texts of `bytes` of these letters without a blank, between short ones. */
void tokens_unbroken(const char *path, const char *const *letters, uint32_t kinds, uint32_t bytes);
/* The value of a string member in a line that was written by these, its escapes undone; its length. */
size_t tokens_member(const char *line, const char *name, char *out);

/* snug tokenize, which must end well. */
void tokens_make(const char *folder, const char *data, const char *rest, const char *out);

/* ---- what was made ---- */

typedef struct {
    uint32_t *tokens;
    uint8_t *learned;
    uint64_t *ends;
    uint64_t count, documents, at; /* at: of the next document */
    bool masks;
} tokens_made;
void tokens_read(const char *path, tokens_made *m); /* free with tokens_free */
void tokens_free(tokens_made *m);

typedef struct {
    tokenizer *tokenizer;
    tokenizer_work *work;
    uint32_t end;
    tokens_made made;
    bool whole; /* all is learned */
} tokens_checker;
void tokens_open(const char *folder, const char *path, tokens_checker *c);
void tokens_close(tokens_checker *c); /* all documents were looked at */
/* The next document: these ids, of which those from `learned` on are learned. */
void tokens_expect(tokens_checker *c, const uint32_t *ids, size_t count, size_t learned);
/* A text as the tokenizer frames it, with the model's end behind it where it puts nothing there; how many. */
size_t tokens_frame(tokens_checker *c, const char *text, size_t bytes, uint32_t *out);
/* The file holds what the tokenizer makes of each text of the data. */
void tokens_check(const char *folder, const char *data, const char *path);
