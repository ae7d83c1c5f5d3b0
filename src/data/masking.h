/* Hiding tokens for models that learn to fill gaps. Of a sample's tokens 15 in 100 are chosen, each by
 * itself; their labels are what they were, and the labels of all others are ignored. Of the chosen ones 80 in
 * 100 become the mask, 10 any token, and 10 stay as they are.
 *
 * What is drawn is a function of the seed, the number of the sample and the place in it: the same whoever
 * reads it. Training numbers samples through the whole run, so an epoch hides others than the one before;
 * validation numbers them by their place in the data, so each time hides the same.
 * Papers: Devlin et al., arXiv:1810.04805; drawing anew: Liu et al., arXiv:1907.11692. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool on; /* else nothing is hidden */
    uint64_t seed;
    uint32_t context, vocabulary; /* tokens of a sample; any token is below */
    int32_t mask;
    bool skips_ignored; /* what labels ignore, as padding and special tokens, is not hidden */
} data_masking;

/* Rewrites the tokens and labels of sample `number`, each of `context`; the labels' old values
 * only matter where `skips_ignored`. */
void data_masking_apply(const data_masking *m, uint64_t number, int32_t *tokens, int32_t *labels);
