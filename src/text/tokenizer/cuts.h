/* Where a long document may be cut although its model sees it as one word. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

enum { CUTS_BITS = 1 << 20 }; /* of tokenizer.neighbours */

/* May documents be cut so, and then which characters stand side by side in tokens. When all is read. */
bool cuts_prepare(tokenizer *t);

/* The first place behind its beginning at which a word may be cut before it goes to the model
 * (tokenizer.cuts_words); its length: there is none. */
uint32_t cuts_word(const tokenizer *t, span text);

/* The last place of a text, not its end, where it may be cut: what stands before has the same ids whatever
 * follows, and what follows the same as behind it. 0: there is none. */
size_t cuts_find(const tokenizer *t, span text);
