/* Philox4x32-10: random numbers that are a function of where they are used, not of what was drawn before,
 * so a recomputed, re-batched or resharded draw is the same draw.
 * Paper: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 *
 * Key: the run's seed. Counter: (element / 4, sample, step, stream). */
#pragma once

#include <stdint.h>

#include "base/vector.h"

typedef struct {
    uint32_t word[4];
} philox_block;

VECTOR_INLINE philox_block philox_draw(uint64_t seed, philox_block counter) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    philox_block c = counter;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c.word[0], p1 = (uint64_t)0xCD9E8D57u * c.word[2];
        philox_block next = { { (uint32_t)(p1 >> 32) ^ c.word[1] ^ k0, (uint32_t)p1,
                                (uint32_t)(p0 >> 32) ^ c.word[3] ^ k1, (uint32_t)p0 } };
        c = next;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c;
}

/* What a random node needs to know of the step, in the layout of its `key` input: (4) i32. */
typedef struct {
    uint32_t seed_low, seed_high, step, first_sample;
} philox_key;

/* So many blocks at once, word after word of each; the first word of their counters is that of `first` and
 * counts on, modulo 2^32. */
enum { PHILOX_MANY = 32, PHILOX_MANY_WORDS = 4 * PHILOX_MANY };
void philox_draw_many(uint64_t seed, const philox_block *first, uint32_t word[PHILOX_MANY_WORDS]);

/* The same of fewer, a multiple of eight of them, and the first words of all, then the second ones, and so
 * on: word (4, blocks). */
void philox_draw_apart(uint64_t seed, const philox_block *first, int blocks, uint32_t *word);

/* The word for one element of one sample (sample counted within the micro-batch). */
VECTOR_INLINE uint32_t philox_word(const philox_key *key, uint32_t stream, uint32_t sample,
                                   uint64_t element) {
    uint64_t seed = (uint64_t)key->seed_high << 32 | key->seed_low;
    philox_block counter = { { (uint32_t)(element >> 2), key->first_sample + sample, key->step, stream } };
    return philox_draw(seed, counter).word[element & 3];
}

/* Uniform in (0,1). */
VECTOR_INLINE float philox_uniform(uint32_t word) { return ((float)(word >> 8) + 0.5f) * 0x1p-24f; }

/* Normal numbers (Box-Muller): elements first .. first + n - 1 of an endless list, `first` being even. For
 * initial weights. */
typedef struct {
    uint64_t seed;
    uint32_t stream;
    float mean, deviation;
} philox_normal_list;
void philox_normal(const philox_normal_list *list, int64_t first, int64_t n, float *out);
