/* Where a long document may be cut before a blank between letters, or between two ideographs. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

/* May documents be cut so (t->takes_blanks, t->takes_ideographs)? When all is read. STATUS_NO_FIT: there is
 * no memory to find out. */
status blanks_prepare(tokenizer *t);

/* The last place of a text that may be cut: what stands before has the same ids whatever follows, and what
 * follows the same as behind it. 0: there is none. */
size_t blanks_find(const tokenizer *t, span text);
