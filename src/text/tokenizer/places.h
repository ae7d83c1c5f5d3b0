/* Where a long document may be cut between two characters: between pieces, or inside of a word that the model
 * settles. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

/* May documents be cut so (t->takes_places)? When all is read. */
void places_prepare(tokenizer *t);

/* The last place of a text where pieces part; what is before and behind it has the same ids alone. Where
 * there is none: the last one inside of a word (`*inside`), and w->places has more of that word. 0: none. */
status places_find(tokenizer_work *w, span text, size_t *place, bool *inside);
