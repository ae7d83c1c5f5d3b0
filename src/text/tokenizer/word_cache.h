/* Words and their ids, as far as they fit: a table of fixed size in which a new word takes the place of an
 * old one. */
#pragma once

#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/tokenizer_internal.h"

enum { WORD_BYTES = 31, WORD_IDS = 7, WORD_ENTRIES = 1 << 16 };

/* One line of a processor's cache. */
typedef struct {
    char text[WORD_BYTES];
    uint8_t bytes : 5, count : 3; /* bytes 0: free */
    uint32_t ids[WORD_IDS];
    uint32_t rest;
} word_cache_entry;
_Static_assert(sizeof(word_cache_entry) == 64, "an entry is a line of the cache");

typedef struct word_cache {
    word_cache_entry entries[WORD_ENTRIES];
} word_cache;

/* Where the word is or may be put; NULL: it is too long. */
static inline word_cache_entry *word_cache_find(word_cache *c, span text) {
    if (text.bytes > WORD_BYTES || !c) return NULL;
    return &c->entries[hash_words(text.data, text.bytes) & (WORD_ENTRIES - 1)];
}

static inline bool word_cache_is(const word_cache_entry *e, span text) {
    return e->bytes == text.bytes && memcmp(e->text, text.data, text.bytes) == 0;
}

/* Words of more ids than there is room for are not kept. */
static inline void word_cache_put(word_cache_entry *e, span text, const uint32_t *ids, size_t count) {
    if (count > WORD_IDS || text.bytes == 0) return;
    memcpy(e->text, text.data, text.bytes);
    e->bytes = (uint8_t)(text.bytes & 31u), e->count = (uint8_t)(count & 7u);
    if (count) memcpy(e->ids, ids, count * sizeof *ids);
}
