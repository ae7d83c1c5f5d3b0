#include "base/philox.h"

#include <math.h>

#include "base/philox_avx512.h"

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

#define TARGET PHILOX_TARGET
enum { LANES = PHILOX_LANES, VECTORS = PHILOX_MANY / LANES };

/* Words by block, eight blocks to a vector. */
typedef struct {
    philox_lanes of[VECTORS];
} drawn;

TARGET static inline __attribute__((always_inline)) void draw(uint64_t seed, const philox_block *first,
                                                              __m512i place, const int vectors, drawn *d) {
    const philox_keys keys = philox_keys_of(seed);
    philox_block at = *first;
    for (int v = 0; v < vectors; v++, at.word[0] += LANES) philox_lanes_begin(&d->of[v], &at, place);
    for (int round = 0; round < PHILOX_ROUNDS; round++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) philox_lanes_round(&d->of[v], &keys, round);
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
                _mm256_storeu_si256((void *)(word + w * blocks + b), _mm512_cvtepi64_epi32(d.of[v].word[w]));
    }
}

TARGET static void draw_avx512(uint64_t seed, const philox_block *first, uint32_t word[PHILOX_MANY_WORDS]) {
    drawn d;
    draw(seed, first, philox_lanes_woven(), VECTORS, &d);
    for (int v = 0; v < VECTORS; v++, word += 4 * LANES) {
        __m512i in_order[2];
        philox_lanes_weave(&d.of[v], in_order);
        _mm512_storeu_si512(word, in_order[0]);
        _mm512_storeu_si512(word + 2 * LANES, in_order[1]);
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
