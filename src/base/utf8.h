/* Names and texts that come from files of unknown origin: is it UTF-8, and how to show it in a sentence. */
#pragma once

#include <stddef.h>

/* The length in bytes (1-4) of the character that `s` begins with; 0 when the first bytes of the `n` are not
 * UTF-8 (overlong forms, surrogates and values above U+10FFFF are not) or when n is 0. */
size_t utf8_length(const char *s, size_t n);

/* Writes the code point (a valid one, not a surrogate) to `out`; returns its length. */
size_t utf8_encode(unsigned long point, char out[4]);

/* `name` as it may stand in a sentence on a terminal: control characters and bytes that are not UTF-8 become
 * '?', what is long is cut and ends in "...". Returns `out`. */
enum { UTF8_QUOTE_BYTES = 100 };
const char *utf8_quote(const char *name, char out[UTF8_QUOTE_BYTES]);

/* The same of a whole text, in place: it becomes one line that says nothing to a terminal but its letters. */
void utf8_clean(char *text);
