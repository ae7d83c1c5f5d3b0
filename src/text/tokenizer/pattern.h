/* Patterns of tokenizers, which are written for Oniguruma, run by PCRE2.
 *
 * The two differ in what \s, \w, \d and \p{...} mean, since they know different versions of Unicode; so
 * classes are written out as ranges from our own table before PCRE2 sees them. What means something else in
 * the other syntax is translated; what can't be is refused with a sentence. Simple patterns are matched by
 * tables (pattern_scan.h), with the same matches.
 *
 * Matching is bounded: STATUS_INVALID says so where a pattern takes too long on a text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/tokenizer/pattern_memory.h"

typedef struct pattern pattern;
typedef struct pattern_match pattern_match;

/* `memory` must stay until all its patterns are closed. The sentence names the pattern and what in it. */
status pattern_open(const char *text, size_t bytes, pattern_memory *memory, pattern **p);
/* Matched by PCRE2 also where tables would do: for tests, which compare the two. */
status pattern_open_plain(const char *text, size_t bytes, pattern_memory *memory, pattern **p);
bool pattern_is_scanned(const pattern *p);
/* For text as it is, without any signs. */
status pattern_open_text(const char *text, size_t bytes, pattern_memory *memory, pattern **p);
/* Does what it matches depend on what stands before? */
bool pattern_looks_back(const pattern *p);
struct run_rules; /* runs.h; NULL: not known */
const struct run_rules *pattern_runs(const pattern *p);
void pattern_close(pattern *p); /* NULL is fine */

/* One for each thread. */
status pattern_match_open(pattern_match **m);
void pattern_match_close(pattern_match *m);
uint64_t pattern_match_bytes(void);

/* A walk over the matches in a text, from left to right. */
typedef struct {
    const pattern *p;
    pattern_match *m;
    const char *text;
    size_t bytes, next, last; /* last: the end of the last match; SIZE_MAX: none yet */
    bool open;    /* more text follows: a match that it might change, and all behind it, is none */
    size_t begun; /* where such a match begins; SIZE_MAX: there is none */
} pattern_walk;

static inline pattern_walk pattern_begin(const pattern *p, pattern_match *m, const char *text, size_t bytes) {
    return (pattern_walk){ p, m, text, bytes, 0, SIZE_MAX, false, SIZE_MAX };
}

/* `*found` is false behind the last one. No match is empty and touches the one before it. */
status pattern_next(pattern_walk *w, bool *found, size_t *start, size_t *end);
