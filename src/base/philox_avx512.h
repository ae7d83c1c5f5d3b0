/* Blocks of Philox in registers, eight at a time, for loops that need random bits among other work: the words
 * of base/philox.h. */
#pragma once

#include "base/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PHILOX_TARGET __attribute__((target("avx512f")))
enum { PHILOX_LANES = 8, PHILOX_ROUNDS = 10 };

/* Word by word of eight blocks. A word is the lower half of a lane: what stands above it is never looked at,
 * as the instruction multiplies lower halves. */
typedef struct {
    __m512i word[4];
} philox_lanes;

/* What each round adds to the words, of a seed. */
typedef struct {
    uint64_t first[PHILOX_ROUNDS], second[PHILOX_ROUNDS];
} philox_keys;

static inline philox_keys philox_keys_of(uint64_t seed) {
    philox_keys k;
    for (uint32_t r = 0; r < PHILOX_ROUNDS; r++) {
        k.first[r] = (uint32_t)seed + r * 0x9E3779B9u;
        k.second[r] = (uint32_t)(seed >> 32) + r * 0xBB67AE85u;
    }
    return k;
}

/* The first words of the counters are that of `first` and, lane by lane, `place` more. */
PHILOX_TARGET static inline void philox_lanes_begin(philox_lanes *l, const philox_block *first,
                                                    __m512i place) {
    l->word[0] = _mm512_add_epi64(_mm512_set1_epi64(first->word[0]), place);
    for (int w = 1; w < 4; w++) l->word[w] = _mm512_set1_epi64(first->word[w]);
}

/* Rounds 0 .. PHILOX_ROUNDS - 1 in their order. */
PHILOX_TARGET static inline void philox_lanes_round(philox_lanes *l, const philox_keys *k, int round) {
    enum { XOR = 0x96 };
    const __m512i k0 = _mm512_set1_epi64((int64_t)k->first[round]),
                  k1 = _mm512_set1_epi64((int64_t)k->second[round]);
    const __m512i p0 = _mm512_mul_epu32(l->word[0], _mm512_set1_epi64(0xD2511F53)),
                  p1 = _mm512_mul_epu32(l->word[2], _mm512_set1_epi64(0xCD9E8D57));
    l->word[0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), l->word[1], k0, XOR);
    l->word[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), l->word[3], k1, XOR);
    l->word[1] = p1, l->word[3] = p0;
}

/* The places that philox_lanes_weave expects: two blocks of four that are woven together come out in order.
 */
PHILOX_TARGET static inline __m512i philox_lanes_woven(void) {
    return _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
}

/* All words of the eight blocks, block after block. */
PHILOX_TARGET static inline void philox_lanes_weave(const philox_lanes *l, __m512i in_order[2]) {
    const __m512i low = _mm512_set1_epi64(0xffffffff);
    __m512i of_01 = _mm512_or_si512(_mm512_and_si512(l->word[0], low), _mm512_slli_epi64(l->word[1], 32));
    __m512i of_23 = _mm512_or_si512(_mm512_and_si512(l->word[2], low), _mm512_slli_epi64(l->word[3], 32));
    in_order[0] = _mm512_unpacklo_epi64(of_01, of_23);
    in_order[1] = _mm512_unpackhi_epi64(of_01, of_23);
}
#endif
