#include "ops/adamw/adamw_halves.h"

#include "base/half_avx512.h"
#include "base/instructions.h"
#include "base/philox_avx512.h"
#include "ops/adamw/adamw_avx512.h"
#include "ops/state.h"

#if defined(__x86_64__)

#define TARGET HALF_BF16_TARGET
#define INLINE inline __attribute__((always_inline))

/* Elements at a time: as many as eight blocks of Philox have bits for, two for a word. */
enum { LANES = 16, STEP = 8 * PHILOX_LANES, VECTORS = STEP / LANES, PER_BLOCK = 8, AHEAD = 512 };

typedef struct {
    const op_call *call;
    adamw_step step;
    half_random random[3]; /* of weight and moments */
    philox_keys keys;
} work;

TARGET static INLINE __m512 load(const op_call *c, int input, int64_t i) {
    const __m256i halves = _mm256_loadu_si256((const void *)((const uint16_t *)c->in[input].data + i));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

TARGET static INLINE void draw_begin(const work *j, int which, int64_t i, philox_lanes *l) {
    uint64_t number = (uint64_t)(j->call->first + i) / PER_BLOCK;
    const philox_block first = { { (uint32_t)number, (uint32_t)(number >> 32), j->random[which].key.step,
                                   j->random[which].stream } };
    philox_lanes_begin(l, &first, philox_lanes_woven());
}

TARGET static INLINE void store(const work *j, int output, int64_t i, const __m512 x[VECTORS],
                                const philox_lanes *l, const bool drawn) {
    uint16_t *y = (uint16_t *)j->call->out[output].data + i;
    __m512i random[2];
    if (drawn) philox_lanes_weave(l, random);
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++)
        _mm512_storeu_si512(y + k * 2 * LANES, drawn ? half_bf16_drawn(x[2 * k], x[2 * k + 1], random[k])
                                                     : half_bf16_of_two(x[2 * k], x[2 * k + 1]));
}

TARGET static INLINE void update_some(const work *j, int64_t i, const bool drawn) {
    const op_call *c = j->call;
    __m512 w[VECTORS], m[VECTORS], v[VECTORS];
    philox_lanes random[3];
#pragma GCC unroll 3
    for (int which = 0; which < 3 && drawn; which++) draw_begin(j, which, i, &random[which]);
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++) {
        const int64_t at = i + k * LANES;
        const int begin = k * PHILOX_ROUNDS / VECTORS, end = (k + 1) * PHILOX_ROUNDS / VECTORS;
        for (int input = 0; input < 4 && k % 2 == 0; input++)
            __builtin_prefetch((const uint16_t *)c->in[input].data + at + AHEAD);
        adamw_vector x = { load(c, 0, at), load(c, 2, at), load(c, 3, at) };
        x = adamw_update_vector(&j->step, x, load(c, 1, at));
        w[k] = x.w, m[k] = x.m, v[k] = x.v;
#pragma GCC unroll 3
        for (int which = 0; which < 3 && drawn; which++)
#pragma GCC unroll 3
            for (int r = begin; r < end; r++) philox_lanes_round(&random[which], &j->keys, r);
    }
    store(j, 0, i, w, &random[0], drawn);
    store(j, 1, i, m, &random[1], drawn);
    store(j, 2, i, v, &random[2], drawn);
}

TARGET static void update_nearest(const work *j, int64_t first, int64_t end) {
    for (; first < end; first += STEP) update_some(j, first, false);
}

TARGET static void update_drawn(const work *j, int64_t first, int64_t end) {
    for (; first < end; first += STEP) update_some(j, first, true);
}

int64_t adamw_update_halves(const op_call *c, const adamw_step *step, int64_t first, int64_t last) {
    int64_t end = last - (last - first) % STEP;
    if (!instructions_usable(INSTRUCTIONS_AVX512) || !half_avx512_bf16_usable()) return first;
    work j = { .call = c, .step = *step };
    bool drawn = false;
    for (uint32_t which = 0; which < 3; which++)
        drawn = state_rounding(c, &op_adamw, which, &j.random[which]);
    if (drawn && (c->first + first) % STEP) return first; /* amidst what is drawn at a time */
    if (drawn) j.keys = philox_keys_of((uint64_t)j.random->key.seed_high << 32 | j.random->key.seed_low);
    (drawn ? update_drawn : update_nearest)(&j, first, end);
    return end;
}

#else
int64_t adamw_update_halves(const op_call *c, const adamw_step *step, int64_t first, int64_t last) {
    (void)c, (void)step, (void)last;
    return first;
}
#endif
