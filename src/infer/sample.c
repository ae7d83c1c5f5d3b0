#include "infer/sample.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"

enum { STREAM = 0x73616d70 }; /* of the draws, apart from those of training */

/* Unsigned numbers in the order of the floats; equal for the two zeros. */
static uint32_t ordered(float x) {
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The largest bound that at least k logits reach, bit by bit. */
static uint32_t bound_of(const float *logits, int64_t n, int64_t k) {
    uint32_t bound = 0;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        int64_t reach = 0;
        for (int64_t i = 0; i < n; i++) reach += ordered(logits[i]) >= (bound | bit);
        if (reach >= k) bound |= bit;
    }
    return bound;
}

/* Uniform in (0,1), 53 bits. */
static double draw(uint64_t seed, uint32_t position) {
    philox_block b = philox_draw(seed, (philox_block){ { 0, 0, position, STREAM } });
    uint64_t bits = (uint64_t)(b.word[0] >> 6) << 26 | b.word[1] >> 6;
    return ((double)bits + 0.5) * 0x1p-52;
}

status sample_next(const sample_options *o, const float *logits, int64_t vocabulary, uint32_t position,
                   int32_t *id) {
    int32_t best = 0;
    for (int64_t i = 0; i < vocabulary; i++) {
        if (!isfinite(logits[i]))
            return status_set(STATUS_FAILED,
                              "the logit of token %lld at position %u is %g: the weights are damaged",
                              (long long)i, position, (double)logits[i]);
        if (logits[i] > logits[best]) best = (int32_t)i;
    }
    *id = best;
    if (o->temperature == 0 || o->top_k == 1) return STATUS_OK;
    uint32_t bound = o->top_k > 0 && o->top_k < vocabulary ? bound_of(logits, vocabulary, o->top_k) : 0;
    double total = 0, reached = 0;
    for (int64_t i = 0; i < vocabulary; i++)
        if (ordered(logits[i]) >= bound)
            total += exp(((double)logits[i] - (double)logits[best]) / o->temperature);
    double wanted = draw(o->seed, position) * total;
    for (int64_t i = 0; i < vocabulary; i++) {
        if (ordered(logits[i]) < bound) continue;
        reached += exp(((double)logits[i] - (double)logits[best]) / o->temperature);
        if (reached >= wanted) { /* the same sums in the same order: the last one reaches `total` */
            *id = (int32_t)i;
            return STATUS_OK;
        }
    }
    return STATUS_OK;
}
