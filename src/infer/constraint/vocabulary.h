/* The bytes of all tokens, in an order in which those that begin alike stand together: what masks of tokens
 * are made from. */
#pragma once

#include "infer/language.h"

enum {
    VOCABULARY_LONGEST = 64, /* bytes of a token that may be written but within plain text */
    VOCABULARY_ENDS = 16,    /* tokens that end a text */
};

/* Tokens sorted by their bytes. `shared`: how many of them a token has in common with the one before. */
typedef struct {
    const int32_t *ids;
    const uint8_t *shared;
    uint32_t first[257]; /* by first byte: where its tokens begin */
} vocabulary_list;

typedef struct {
    int64_t count;
    uint32_t *start; /* count + 1: of a token's bytes in `bytes` */
    char *bytes;
    int32_t *ids;
    uint8_t *shared;
    /* Plain tokens are whole characters that stand in a JSON text as they are; `others` are those that are
     * not, and that have any bytes. */
    vocabulary_list plain, others;
    uint64_t *plain_bits; /* by token */
    uint8_t *characters;  /* by place in `plain`: 255 for as many or more */
    int32_t ends[VOCABULARY_ENDS];
    uint32_t end_count, most_characters;
} constraint_words;

/* What an open one will hold, in bytes, `text` of them those of all words. */
uint64_t vocabulary_bytes(int64_t count, uint64_t text);
status vocabulary_measure(const language *l, int64_t count, uint64_t *bytes, uint64_t *text);
/* Into `memory`, of as many bytes, aligned to 8. */
status vocabulary_open(const language *l, int64_t count, uint64_t text, void *memory, constraint_words *v);
