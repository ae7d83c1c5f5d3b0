/* From logits to the next token. What is kept is found by counting, not by sorting, in memory of the
 * caller's. */
#pragma once

#include <stdint.h>

#include "base/status.h"

typedef struct {
    double temperature; /* 0: always the likeliest, the first of equals */
    int64_t top_k;      /* keep the likeliest of this number, and those equal to the last of them; 0: all */
    double top_p;       /* of these keep the fewest likeliest that have this share of their probability,
                           and those equal to the last of them; 1: all */
    double repetition_penalty; /* logits of tokens that were there before are divided by it if positive, and
                                  multiplied if negative; 1: nothing is done (arXiv:1909.05858) */
    uint64_t seed;
} sample_options;

/* STATUS_INVALID with a sentence for what makes no sense. */
status sample_check(const sample_options *o);

/* Bytes that sample_next works in, aligned to 8; 0 where it needs none. */
uint64_t sample_bytes(const sample_options *o, int64_t vocabulary);

/* What a token is drawn from. */
typedef struct {
    const float *logits;
    const uint8_t *seen; /* by token: not 0 where the text has it; may be NULL without a penalty */
    int64_t vocabulary;
    uint32_t position; /* of the token in its text */
    void *memory;      /* sample_bytes */
} sample_from;

/* Draws from softmax(logits / temperature) over what is kept. The draw is a function of seed and position, so
 * it does not depend on what else is drawn. STATUS_FAILED when a logit is not finite. */
status sample_next(const sample_options *o, const sample_from *from, int32_t *id);
