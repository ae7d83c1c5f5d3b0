/* What two tokens merge to. */
#pragma once

#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/tokenizer_internal.h"

static inline const merge *merges_find(const tokenizer *t, uint32_t left, uint32_t right) {
    for (uint64_t i = hash_pair(left, right);; i++) {
        const merge *m = &t->merges[i & t->merge_mask];
        if (m->left == left && m->right == right) return m;
        if (m->left == TOKENIZER_NONE) return NULL;
    }
}
