/* Which of many logits are kept, and which of these is drawn, without sorting: a histogram of their distances
 * to the largest one is made, then one of those in the bucket that matters, and so on until its values are
 * equal. Each pass goes over all of the logits; weights are computed of what is in the bucket alone. */
#pragma once

#include <stdint.h>

enum { SELECT_BUCKETS = 2048, SELECT_BITS = 44 };

/* Logits are finite, or minus infinity for what is left out; one at least is finite. */
typedef struct {
    const float *logits;
    int64_t count;
    float best, least; /* the extremes */
    double factor;     /* log2(e) / temperature */
    uint32_t bits;     /* the largest weight is 2^bits: SELECT_BITS, less beyond 2^18 logits */
    uint64_t *sums;    /* SELECT_BUCKETS */
} selection;

/* `sums` is work space. temperature > 0. */
selection sample_select_begin(const float *logits, int64_t count, double temperature, uint64_t *sums);

/* round(2^bits exp((logit - best) / temperature)), with bits that the processor does not change. */
uint64_t sample_select_weight(const selection *s, float logit);

/* The largest bound that at least k logits reach; k <= count. */
float sample_select_count(const selection *s, int64_t k);
/* The largest bound such that what reaches it has at least the share p of the weights that reach `from`. */
float sample_select_share(const selection *s, float from, double p);
/* The lowest bound of what has p times the probability of the best. */
float sample_select_ratio(const selection *s, double temperature, double p);

/* Of those that reach the bound: their weight; and the first one, in the order of places, up to which the
 * weights sum to more than the share `uniform` of it, in (0,1). */
uint64_t sample_select_total(const selection *s, float bound);
int64_t sample_select_draw(const selection *s, float bound, double uniform);

/* The first place of the best. */
int64_t sample_select_first(const selection *s);
