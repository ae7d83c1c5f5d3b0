/* What two tokens merge to. */
#pragma once

#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/tokenizer_internal.h"

enum { MERGE_BITS = 1 << 20 }; /* of tokenizer.merge_bits */

/* Most pairs don't merge: bits of those that do stay in a nearer cache than their table. */
static inline const merge *merges_find(const tokenizer *t, uint32_t left, uint32_t right) {
    uint64_t hash = hash_pair(left, right), bit = hash >> 40 & (MERGE_BITS - 1);
    if (!(t->merge_bits[bit / 64] >> bit % 64 & 1)) return NULL;
    for (uint64_t i = hash;; i++) {
        const merge *m = &t->merges[i & t->merge_mask];
        if (m->left == left && m->right == right) return m;
        if (m->left == TOKENIZER_NONE) return NULL;
    }
}
