/* From logits to the next token. Takes no memory: what is kept is found by counting, not by sorting. */
#pragma once

#include <stdint.h>

#include "base/status.h"

typedef struct {
    double temperature; /* 0: always the likeliest, the first of equals */
    int64_t top_k;      /* keep the likeliest of this number, and those equal to the last of them; 0: all */
    uint64_t seed;
} sample_options;

/* Draws from softmax(logits / temperature) over what is kept; the draw is a function of seed and position.
 * STATUS_FAILED when a logit is not finite. */
status sample_next(const sample_options *o, const float *logits, int64_t vocabulary, uint32_t position,
                   int32_t *id);
