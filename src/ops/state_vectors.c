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

/* Encoding asks where a size x stands. A step is a run of sizes with one formula: step 0 is what becomes 0,
 * then come the decades, and the last is what becomes the map's last value. As at most one step begins in an
 * octave, the exponent says which one x is in, or the one before. */
enum { PLANES = 4, OCTAVES = 32, STEPS = 16 };
typedef struct {
    _Alignas(64) uint8_t plane[PLANES][STATE_CODES]; /* byte by byte of the map's values */
    /* By the lower bits of the exponent: where a step begins in this octave, NaN if none does, which also
     * infinity does not reach; the step before that. */
    _Alignas(64) float border[OCTAVES];
    _Alignas(64) int32_t before[OCTAVES];
    /* By step: code = base + min(x slope - ninth, most), as in state_place_of. */
    _Alignas(64) float slope[STEPS], ninth[STEPS], most[STEPS];
    _Alignas(64) int32_t base[STEPS];
} tables;

static tables both[2];

/* The smallest size that octaves are told apart from: all below is in step 0 or, without a sign, in 1. */
#define SMALLEST 0x1p-23f
enum { SMALLEST_OCTAVE = 127 - 23, LAST_STEP = STATE_DECADES + 1 };

/* Where step `step` begins. Beyond halfway is the next float after it. */
static float begin_of(bool positive, int step) {
    const float borders[2][STATE_DECADES] = { STATE_EACH_DECADE(STATE_BORDER, 1),
                                              STATE_EACH_DECADE(STATE_BORDER, 2) };
    if (step == 1) return positive ? 0 : nextafterf(0.5f * state_value_at(1, false), 1);
    if (step == LAST_STEP)
        return nextafterf(0.5f * state_value_at(positive ? STATE_CODES - 2 : STATE_ZERO, positive) + 0.5f, 1);
    return borders[positive][step - 2];
}

static void make_octaves(tables *t, bool positive) {
    for (int octave = SMALLEST_OCTAVE; octave <= 127; octave++) {
        float low = half_float((uint32_t)octave << 23);
        int step = 0;
        while (step < LAST_STEP && begin_of(positive, step + 1) <= low) step++;
        bool begins = step < LAST_STEP && begin_of(positive, step + 1) < 2 * low;
        t->before[octave % OCTAVES] = step;
        t->border[octave % OCTAVES] = begins ? begin_of(positive, step + 1) : NAN;
    }
}

static void make_steps(tables *t, bool positive) {
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
        tables *t = &both[positive];
        for (int code = 0; code < STATE_CODES; code++)
            for (int p = 0; p < PLANES; p++)
                t->plane[p][code] = (uint8_t)(half_bits(state_map(positive)[code]) >> 8 * p);
        make_octaves(t, positive);
        make_steps(t, positive);
    }
}

static const tables *tables_of(bool positive) {
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, make_tables);
    return &both[positive];
}

/* ---- decoding ---- */

const uint8_t *state_vectors_bytes(bool positive) { return tables_of(positive)->plane[0]; }

TARGET void state_vectors_decode(bool positive, const uint8_t *codes, float scale, int64_t n, float *x) {
    const uint8_t *bytes = state_vectors_bytes(positive);
    for (int64_t i = 0; i < n; i += STATE_VECTOR) {
        __builtin_prefetch(codes + i + STATE_BLOCK);
        state_vectors_decode_64(bytes, _mm512_loadu_si512(codes + i), _mm512_set1_ps(scale), x + i);
    }
}

/* ---- encoding ---- */

/* The tables in registers. */
typedef struct {
    __m512 border[2], slope, ninth, most;
    __m512i before[2], base;
} registers;

TARGET static inline registers registers_of(const tables *t) {
    registers r = { .slope = _mm512_load_ps(t->slope),
                    .ninth = _mm512_load_ps(t->ninth),
                    .most = _mm512_load_ps(t->most),
                    .base = _mm512_load_si512(t->base) };
    for (int k = 0; k < 2; k++) {
        r.border[k] = _mm512_load_ps(t->border + 16 * k);
        r.before[k] = _mm512_load_si512(t->before + 16 * k);
    }
    return r;
}

/* Infinity by an inverse of 0 is no number: state_place_of ends at the first place of the last decade. */
enum { LOST = (2 << (STATE_DECADES - 1)) - 1 };

/* Codes of sizes, those of NaN are of step 0 or, without a sign, 1. */
TARGET static inline __m512i codes_of_sizes(const registers *r, __m512 size) {
    __m512 told = _mm512_max_ps(size, _mm512_set1_ps(SMALLEST)); /* of NaN the second one */
    __m512i octave = _mm512_srli_epi32(_mm512_castps_si512(told), 23);
    __m512 border = _mm512_permutex2var_ps(r->border[0], octave, r->border[1]);
    __m512i step = _mm512_permutex2var_epi32(r->before[0], octave, r->before[1]);
    __mmask16 reached = _mm512_cmp_ps_mask(size, border, _CMP_GE_OQ);
    step = _mm512_mask_add_epi32(step, reached, step, _mm512_set1_epi32(1));
    __m512 place = _mm512_sub_ps(_mm512_mul_ps(size, _mm512_permutexvar_ps(step, r->slope)),
                                 _mm512_permutexvar_ps(step, r->ninth));
    place = _mm512_min_ps(place, _mm512_permutexvar_ps(step, r->most)); /* of NaN the second one */
    return _mm512_add_epi32(_mm512_cvttps_epi32(place), _mm512_permutexvar_epi32(step, r->base));
}

/* What is negative has the code as far below that of 0, and -1 where there is none: packing makes it 0. */
TARGET static inline __m512i codes_of(const registers *r, const bool positive, __m512 x, __m512 inverse) {
    if (positive) {
        __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
        __m512 size = _mm512_mul_ps(x, inverse);
        __mmask16 lost = _mm512_cmp_ps_mask(size, size, _CMP_UNORD_Q);
        __m512i code = _mm512_mask_mov_epi32(codes_of_sizes(r, size), lost, _mm512_set1_epi32(LOST));
        return _mm512_maskz_mov_epi32(above, code);
    }
    __m512i code = codes_of_sizes(r, _mm512_mul_ps(_mm512_abs_ps(x), inverse));
    __mmask16 below = _mm512_movepi32_mask(_mm512_castps_si512(x));
    return _mm512_mask_sub_epi32(code, below, _mm512_set1_epi32(2 * STATE_ZERO), code);
}

TARGET static inline void encode(const bool positive, const float *x, float by, int64_t n, uint8_t *codes) {
    const registers r = registers_of(tables_of(positive));
    const __m512 inverse = _mm512_set1_ps(by);
    for (int64_t i = 0; i < n; i += STATE_VECTOR) {
        __m512i words[4];
        for (int k = 0; k < 4; k++)
            words[k] = codes_of(&r, positive, _mm512_loadu_ps(x + i + 16 * k), inverse);
        __m512i packed = _mm512_packus_epi16(_mm512_packs_epi32(words[0], words[1]),
                                             _mm512_packs_epi32(words[2], words[3]));
        _mm512_storeu_si512(codes + i, state_vectors_across(packed));
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
