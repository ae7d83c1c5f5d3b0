/* The order in which samples are seen. */
#pragma once

#include <stdint.h>

/* The i-th sample (i < n) of an epoch over n samples (0 < n <= 2^62): a permutation of 0 .. n-1 for each seed
 * and epoch, computed without a table, so any place of a run can be reached at once and in no memory. */
uint64_t data_order(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

/* The k-th sample of a run that goes through the n samples again and again, in a new order each time. */
static inline uint64_t data_order_sample(uint64_t seed, uint64_t n, uint64_t k) {
    return data_order(seed, k / n, n, k % n);
}
