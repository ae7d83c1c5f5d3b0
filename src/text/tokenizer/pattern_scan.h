/* Matching by tables, without a library: for patterns of characters, sets, repetitions of these, groups of
 * alternatives, and a look at the next character. Nearly all published pre-tokenizers are such; the library
 * looks through a set's ranges one by one for each character beyond Latin.
 *
 * Characters that no set of the pattern tells apart share a class, which two tables tell. A set is a word of
 * bits, one for each class. The pattern is a graph of steps without loops: repetitions are of sets alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text/tokenizer/pattern_memory.h"

typedef struct pattern_scan pattern_scan;

/* Reads what pattern_translate wrote. NULL: the pattern has more than that, may match nothing at all, or
 * there is no memory; so the library takes it. */
pattern_scan *pattern_scan_open(const char *translated, size_t bytes, pattern_memory *memory);
void pattern_scan_close(pattern_scan *s, pattern_memory *memory); /* NULL is fine */

typedef enum {
    SCAN_FOUND,
    SCAN_NONE,
    SCAN_OPEN, /* from *start on more text might match, or end the match elsewhere */
    SCAN_TOO_LONG,
} scan_answer;

typedef struct {
    const char *data; /* valid UTF-8 */
    size_t bytes;
    bool open; /* more text follows */
} scan_text;

/* The first match from `from` on. */
scan_answer pattern_scan_next(const pattern_scan *s, scan_text text, size_t from, size_t *start, size_t *end);
