#include "ops/state_vectors.h"

#include "base/instructions.h"
#include "ops/state.h"
#include "ops/state_math.h"
#include "ops/state_vectors_avx512.h"

#if defined(__x86_64__)
#include <pthread.h>

#define TARGET STATE_TARGET

bool state_vectors_usable(void) {
    return instructions_usable(INSTRUCTIONS_AVX512) && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi");
}

/* ---- tables, made once of the formulas ---- */

static state_tables both[2];

enum {
    PLANES = STATE_PLANES,
    OCTAVES = STATE_OCTAVES,
    SMALLEST_OCTAVE = 127 - 23, /* that of STATE_SMALLEST */
    LAST_STEP = STATE_DECADES + 1
};

/* Where step `step` begins. Beyond halfway is the next float after it. */
static float begin_of(bool positive, int step) {
    const float borders[2][STATE_DECADES] = { STATE_EACH_DECADE(STATE_BORDER, 1),
                                              STATE_EACH_DECADE(STATE_BORDER, 2) };
    if (step == 1) return positive ? 0 : nextafterf(0.5f * state_value_at(1, false), 1);
    if (step == LAST_STEP)
        return nextafterf(0.5f * state_value_at(positive ? STATE_CODES - 2 : STATE_ZERO, positive) + 0.5f, 1);
    return borders[positive][step - 2];
}

static void make_octaves(state_tables *t, bool positive) {
    for (int octave = SMALLEST_OCTAVE; octave <= 127; octave++) {
        float low = half_float((uint32_t)octave << 23);
        int step = 0;
        while (step < LAST_STEP && begin_of(positive, step + 1) <= low) step++;
        bool begins = step < LAST_STEP && begin_of(positive, step + 1) < 2 * low;
        t->before[octave % OCTAVES] = step;
        t->border[octave % OCTAVES] = begins ? begin_of(positive, step + 1) : NAN;
    }
}

static void make_steps(state_tables *t, bool positive) {
    const float slopes[2][STATE_DECADES] = { STATE_EACH_DECADE(STATE_SLOPE, 1),
                                             STATE_EACH_DECADE(STATE_SLOPE, 2) };
    int fewest = positive ? 2 : 1, zero = positive ? 0 : STATE_ZERO;
    for (int d = 0; d < STATE_DECADES; d++) {
        float count = (float)(fewest << d);
        t->slope[d + 1] = slopes[positive][d], t->ninth[d + 1] = count * (1.0f / 9);
        t->most[d + 1] = count - 1, t->base[d + 1] = zero + (fewest << d) - fewest + 1;
    }
    t->base[0] = zero, t->base[LAST_STEP] = STATE_CODES - 1;
}

static void make_tables(void) {
    for (int positive = 0; positive < 2; positive++) {
        state_tables *t = &both[positive];
        for (int code = 0; code < STATE_CODES; code++)
            for (int p = 0; p < PLANES; p++)
                t->plane[p][code] = (uint8_t)(half_bits(state_map(positive)[code]) >> 8 * p);
        make_octaves(t, positive);
        make_steps(t, positive);
    }
}

const state_tables *state_vectors_tables(bool positive) {
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, make_tables);
    return &both[positive];
}

/* ---- arrays ---- */

TARGET void state_vectors_decode(bool positive, const uint8_t *codes, float scale, int64_t n, float *x) {
    const state_tables *t = state_vectors_tables(positive);
    for (int64_t i = 0; i < n; i += STATE_VECTOR) {
        __builtin_prefetch(codes + i + STATE_BLOCK);
        state_vectors_decode_64(t, _mm512_loadu_si512(codes + i), _mm512_set1_ps(scale), x + i);
    }
}

TARGET static inline void encode(const bool positive, const float *x, float by, int64_t n,
                                 uint8_t *restrict codes) {
    const state_tables *t = state_vectors_tables(positive);
    const __m512 inverse = _mm512_set1_ps(by);
    for (int64_t i = 0; i < n; i += STATE_VECTOR) {
        __m512i words[4];
        for (int k = 0; k < 4; k++)
            words[k] = state_vectors_codes(t, positive, _mm512_loadu_ps(x + i + 16 * k), inverse);
        _mm512_storeu_si512(codes + i, state_vectors_packed(words));
    }
}

TARGET void state_vectors_encode(bool positive, const float *x, float inverse, int64_t n, uint8_t *codes) {
    if (positive)
        encode(true, x, inverse, n, codes);
    else
        encode(false, x, inverse, n, codes);
}

#else

bool state_vectors_usable(void) { return false; }
void state_vectors_decode(bool positive, const uint8_t *codes, float scale, int64_t n, float *x) {
    (void)positive, (void)codes, (void)scale, (void)n, (void)x;
}
void state_vectors_encode(bool positive, const float *x, float inverse, int64_t n, uint8_t *codes) {
    (void)positive, (void)x, (void)inverse, (void)n, (void)codes;
}
#endif
