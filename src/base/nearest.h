/* What may have been meant by a word that is not known: insertions, removals, changes and swaps of
 * neighbouring letters are counted, and few enough of them make a near miss. */
#pragma once

#include <stdint.h>

/* Which of `count` words is near enough to be meant by `word`; NULL: none. `word_at(context, i)` gives them,
 * NULL for those that don't count; what it returned last must stay valid until it is called again with
 * another i. */
const char *nearest_word(const char *word, uint32_t count,
                         const char *(*word_at)(const void *context, uint32_t i), const void *context);

/* The same among the words of "one, two, three", into `near`; "" where none is near. */
enum { NEAREST_BYTES = 48 };
const char *nearest_listed(const char *word, const char *list, char near[NEAREST_BYTES]);
