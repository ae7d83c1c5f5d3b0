/* Characters as the tokenizers library sees them: kinds, small letters, and walking through UTF-8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text/tokenizer/unicode_tables.h"

const unicode_kind *unicode_of(uint32_t point);

/* The characters from first on, and before end, of one kind: a text often stays among them. */
typedef struct {
    uint32_t first, end;
    const unicode_kind *kind;
} unicode_stretch;

unicode_stretch unicode_around(uint32_t point);

/* As unicode_of; `*s` may begin as zeros. */
static inline const unicode_kind *unicode_near(unicode_stretch *s, uint32_t point) {
    if (point < s->first || point >= s->end) *s = unicode_around(point);
    return s->kind;
}

static inline bool unicode_is(uint32_t point, unsigned flags) {
    return (unicode_of(point)->flags & flags) != 0;
}

/* The small letters of it; how many there are, 1 or 2. */
uint32_t unicode_small(uint32_t point, uint32_t small[2]);

/* The character that valid UTF-8 begins with; `*bytes` is its length. */
static inline uint32_t unicode_read(const char *s, size_t *bytes) {
    const unsigned char *b = (const unsigned char *)s;
    if (b[0] < 0x80) return *bytes = 1, b[0];
    if (b[0] < 0xe0) return *bytes = 2, (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    if (b[0] < 0xf0)
        return *bytes = 3, (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    return *bytes = 4, (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 |
                           (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

/* The length of a character from its first byte, in valid UTF-8. */
static inline size_t unicode_bytes(unsigned char first) {
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Where the character before `end` begins; text must have one. */
static inline size_t unicode_before(const char *s, size_t end) {
    do end--;
    while ((s[end] & 0xc0) == 0x80);
    return end;
}

/* How many bytes at the beginning (at the end) are blanks. */
size_t unicode_blanks_first(const char *s, size_t bytes);
size_t unicode_blanks_last(const char *s, size_t bytes);

/* Is it UTF-8? Else `*place` is where it is not. */
bool unicode_valid(const char *s, size_t bytes, size_t *place);
