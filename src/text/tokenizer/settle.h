/* The beginning of a word that is longer than what is known of it. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

enum { SETTLE_BITS = 1 << 20 }; /* of tokenizer.beginnings */

/* When all is read: whether and how. */
void settle_prepare(tokenizer *t);

/* The last piece of what is known of a document goes on behind its end: adds the ids that no later text
 * changes and decides so much (work_decide). Adds none where it can't be known. */
status settle_word(tokenizer_work *w, span text);
