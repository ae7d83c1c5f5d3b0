/* What methods and filters do to texts; all of it keeps where each piece is from. */
#pragma once

#include "text/template/letters.h"
#include "text/template/run.h"

typedef enum { WORDS_UPPER, WORDS_LOWER, WORDS_CAPITALIZE, WORDS_TITLE, WORDS_SWAP } words_case;

status words_change(run *r, const value *of, words_case c, value *out);
/* Blanks, or any of the letters of `chars`, gone from the left (1), the right (2) or both (3). */
status words_strip(run *r, const value *of, const value *chars, unsigned sides, value *out);
/* `most` < 0: all. `separator` undefined or none: at blanks. */
status words_split(run *r, const value *of, const value *separator, int64_t most, bool right, value *out);
status words_lines(run *r, const value *of, bool keep_ends, value *out);
status words_replace(run *r, const value *of, const value *from, const value *to, int64_t most, value *out);
status words_join(run *r, const value *between, const value *items, bool any, value *out);
/* Into a field of `width` letters, at its left (-1), right (1) or middle (0). */
status words_field(run *r, const value *of, int64_t width, int where, const char *fill, value *out);
/* The steps that words_find takes; from the end it compares at each place. */
uint64_t words_cost(size_t length, size_t what, bool last);
/* Where `what` is, in bytes from `begin`, or -1. */
int64_t words_find(const value_text *t, const value_text *what, size_t begin, size_t end, bool last);
