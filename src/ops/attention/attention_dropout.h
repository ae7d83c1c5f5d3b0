/* The random mask of a tile: philox_word for every pair of a query and a key, drawn four keys at a time and
 * with the queries side by side. */
#pragma once

#include "ops/attention/attention_tile.h"

enum { ATTENTION_DROPOUT_WORDS = (ATTENTION_TILE + 4) * ATTENTION_TILE };

/* keep (64,64): what dropout multiplies the tile with, 0 or 1/(1 - dropout). `words` has room for
 * ATTENTION_DROPOUT_WORDS. */
void attention_dropout(const attention_view *v, const attention_tile *tile, uint32_t *words, float *keep);
