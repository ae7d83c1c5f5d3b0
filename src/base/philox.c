#include "base/philox.h"

#include <math.h>

VECTOR_CLONES static void apart_plain(uint64_t seed, const philox_block *first, int blocks, uint32_t *word) {
    for (int b = 0; b < blocks; b++) {
        philox_block counter = *first;
        counter.word[0] += (uint32_t)b;
        philox_block four = philox_draw(seed, counter);
        for (int w = 0; w < 4; w++) word[w * blocks + b] = four.word[w];
    }
}

static void draw_plain(uint64_t seed, const philox_block *first, uint32_t word[PHILOX_MANY_WORDS]) {
    uint32_t drawn[4][PHILOX_MANY];
    apart_plain(seed, first, PHILOX_MANY, drawn[0]);
    for (int b = 0; b < PHILOX_MANY; b++)
        for (int w = 0; w < 4; w++) word[4 * b + w] = drawn[w][b];
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))
#define XOR(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
enum { LANES = 8, VECTORS = PHILOX_MANY / LANES };

/* Words by block, eight blocks to a vector. A word is the lower half of a lane: what stands above it is never
 * looked at, as the instruction multiplies lower halves. */
typedef struct {
    __m512i word[4][VECTORS];
} drawn;

TARGET static inline __attribute__((always_inline)) void draw(uint64_t seed, const philox_block *first,
                                                              __m512i place, const int vectors, drawn *d) {
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    __m512i c0[VECTORS], c1[VECTORS], c2[VECTORS], c3[VECTORS];
    for (int v = 0; v < vectors; v++) {
        c0[v] = _mm512_add_epi64(_mm512_set1_epi64((int64_t)first->word[0] + LANES * v), place);
        c1[v] = _mm512_set1_epi64(first->word[1]), c2[v] = _mm512_set1_epi64(first->word[2]);
        c3[v] = _mm512_set1_epi64(first->word[3]);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        __m512i of_0 = _mm512_set1_epi64(k0), of_1 = _mm512_set1_epi64(k1);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            __m512i p0 = _mm512_mul_epu32(c0[v], m0), p1 = _mm512_mul_epu32(c2[v], m1);
            c0[v] = XOR(_mm512_srli_epi64(p1, 32), c1[v], of_0), c1[v] = p1;
            c2[v] = XOR(_mm512_srli_epi64(p0, 32), c3[v], of_1), c3[v] = p0;
        }
    }
    for (int v = 0; v < vectors; v++)
        d->word[0][v] = c0[v], d->word[1][v] = c1[v], d->word[2][v] = c2[v], d->word[3][v] = c3[v];
}

/* Some vectors at a time, then what is left one by one. */
TARGET static void apart_avx512(uint64_t seed, const philox_block *first, int blocks, uint32_t *word) {
    const __m512i place = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    philox_block at = *first;
    drawn d;
    for (int b = 0; b < blocks;) {
        int vectors = blocks - b >= PHILOX_MANY ? VECTORS : blocks - b >= 2 * LANES ? 2 : 1;
        at.word[0] = first->word[0] + (uint32_t)b;
        if (vectors == VECTORS)
            draw(seed, &at, place, VECTORS, &d);
        else if (vectors == 2)
            draw(seed, &at, place, 2, &d);
        else
            draw(seed, &at, place, 1, &d);
        for (int v = 0; v < vectors; v++, b += LANES)
            for (int w = 0; w < 4; w++)
                _mm256_storeu_si256((void *)(word + w * blocks + b), _mm512_cvtepi64_epi32(d.word[w][v]));
    }
}

/* Two blocks of four that are woven together at the end come out in their order. */
TARGET static void draw_avx512(uint64_t seed, const philox_block *first, uint32_t word[PHILOX_MANY_WORDS]) {
    const __m512i low = _mm512_set1_epi64(0xffffffff), place = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    drawn d;
    draw(seed, first, place, VECTORS, &d);
    for (int v = 0; v < VECTORS; v++, word += 4 * LANES) {
        __m512i of_01 =
            _mm512_or_si512(_mm512_and_si512(d.word[0][v], low), _mm512_slli_epi64(d.word[1][v], 32));
        __m512i of_23 =
            _mm512_or_si512(_mm512_and_si512(d.word[2][v], low), _mm512_slli_epi64(d.word[3][v], 32));
        _mm512_storeu_si512(word, _mm512_unpacklo_epi64(of_01, of_23));
        _mm512_storeu_si512(word + 2 * LANES, _mm512_unpackhi_epi64(of_01, of_23));
    }
}

void philox_draw_many(uint64_t seed, const philox_block *first, uint32_t word[PHILOX_MANY_WORDS]) {
    (__builtin_cpu_supports("avx512f") ? draw_avx512 : draw_plain)(seed, first, word);
}

void philox_draw_apart(uint64_t seed, const philox_block *first, int blocks, uint32_t *word) {
    (__builtin_cpu_supports("avx512f") ? apart_avx512 : apart_plain)(seed, first, blocks, word);
}
#else
void philox_draw_many(uint64_t seed, const philox_block *first, uint32_t word[PHILOX_MANY_WORDS]) {
    draw_plain(seed, first, word);
}

void philox_draw_apart(uint64_t seed, const philox_block *first, int blocks, uint32_t *word) {
    apart_plain(seed, first, blocks, word);
}
#endif

void philox_normal(const philox_normal_list *list, int64_t first, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += 2) {
        uint64_t pair = (uint64_t)(first + i) / 2;
        philox_block b = philox_draw(list->seed, (philox_block){ { (uint32_t)pair, (uint32_t)(pair >> 32),
                                                                   0x6e6f726du, list->stream } });
        double radius = sqrt(-2.0 * log((double)philox_uniform(b.word[0])));
        double angle = 6.283185307179586 * (double)philox_uniform(b.word[1]);
        out[i] = list->mean + list->deviation * (float)(radius * cos(angle));
        if (i + 1 < n) out[i + 1] = list->mean + list->deviation * (float)(radius * sin(angle));
    }
}
