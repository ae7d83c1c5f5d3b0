/* Characters of several bytes that a BPE of bytes makes one token of, whatever stands beside them. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

typedef struct whole_letters {
    uint32_t id[1 << 16];                      /* by code point; TOKENIZER_NONE: it comes as its bytes */
    uint64_t before[256 * 4], behind[256 * 4]; /* bits of pairs of bytes: see whole_letters.c */
} whole_letters;

/* When vocabulary, merges and byte_ids are read. */
void whole_letters_prepare(tokenizer *t);

static inline bool whole_letters_has(const uint64_t *bits, char left, char right) {
    return bits[(unsigned char)left * 4 + (unsigned char)right / 64] >> ((unsigned char)right % 64) & 1;
}

/* The code point of a character of two or three bytes. */
static inline uint32_t whole_letters_point(const char *at, uint32_t bytes) {
    const unsigned char *c = (const unsigned char *)at;
    if (bytes == 2) return (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
    return (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
}

/* What stands at `at` of a word: the token of the character, or of its first byte; `*bytes` of text. */
static inline uint32_t whole_letters_at(const tokenizer *t, span text, uint32_t at, uint32_t *bytes) {
    const char *c = text.data + at;
    const whole_letters *l = t->letters;
    unsigned char lead = (unsigned char)*c;
    uint32_t n = lead < 0xc2 || lead >= 0xf0 ? 1 : lead < 0xe0 ? 2 : 3;
    *bytes = 1;
    if (n == 1 || n > text.bytes - at) return t->byte_ids[lead];
    uint32_t id = l->id[whole_letters_point(c, n)];
    bool cut = (at > 0 && whole_letters_has(l->before, c[-1], *c)) ||
               (n < text.bytes - at && whole_letters_has(l->behind, c[n - 1], c[n]));
    if (id == TOKENIZER_NONE || cut) return t->byte_ids[lead];
    *bytes = n;
    return id;
}
