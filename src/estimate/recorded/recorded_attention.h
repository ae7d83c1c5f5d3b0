/* Attention of several calls (ATen's _scaled_dot_product_attention_math) in a recorded step. In 16 bits
 * PyTorch does it in f32: what it is given is cast at its beginning, and its weights and its result at its
 * end. As they are names within one function, casts, the scaled query and the mask stay until it returns. */
#pragma once

#include "estimate/recorded/edit.h"

enum { ATTENTION_QUERY, ATTENTION_KEY, ATTENTION_VALUE, ATTENTION_GIVEN };

typedef struct {
    uint32_t first, last; /* calls of forward: from what it scales first to the product with value */
    uint32_t weights;     /* the storage that value is multiplied by */
    /* Of query, key and value; 0: not found. */
    uint32_t given[ATTENTION_GIVEN];  /* the storage */
    uint32_t reader[ATTENTION_GIVEN]; /* the call of forward that reads it */
    uint32_t back[ATTENTION_GIVEN];   /* the call of backward that makes its gradient */
    double numbers[ATTENTION_GIVEN];  /* how many of it, which may be a part of the storage */
    uint32_t turned; /* the call of backward that copies what the result's gradient is; 0: none */
    uint32_t mask, masked,
        softmax; /* what is added to the scores, and by which call, 0: none; what reads it */
} recorded_attention;

/* In the order in which forward calls them; `count` how many. As recorded, so before calls are put in. NULL
 * where there are none, or with e->failed where there was no memory. The caller frees it. */
recorded_attention *recorded_attentions(recorded_edit *e, uint32_t *count);
