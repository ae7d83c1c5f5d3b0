/* Decoding and encoding in registers, for loops that do more in one go than ops/state_vectors.h: included
 * where there are the instructions. */
#pragma once

#include "ops/state.h"
#include "ops/state_math.h"
#include "ops/state_vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define STATE_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))

/* Encoding asks where a size x stands. A step is a run of sizes with one formula: step 0 is what becomes 0,
 * then come the decades, and the last is what becomes the map's last value. As at most one step begins in an
 * octave, the exponent says which one x is in, or the one before. */
enum { STATE_PLANES = 4, STATE_OCTAVES = 32, STATE_STEPS = 16 };
typedef struct {
    _Alignas(64) uint8_t plane[STATE_PLANES][STATE_CODES]; /* byte by byte of the map's values */
    /* By the lower bits of the exponent: where a step begins in this octave, NaN if none does, which also
     * infinity does not reach; the step before that. */
    _Alignas(64) float border[STATE_OCTAVES];
    _Alignas(64) int32_t before[STATE_OCTAVES];
    /* By step: code = base + min(x slope - ninth, most), as in state_place_of. */
    _Alignas(64) float slope[STATE_STEPS], ninth[STATE_STEPS], most[STATE_STEPS];
    _Alignas(64) int32_t base[STATE_STEPS];
} state_tables;

const state_tables *state_vectors_tables(bool positive);

/* The smallest size that octaves are told apart from: all below is in step 0 or, without a sign, in 1. */
#define STATE_SMALLEST 0x1p-23f

/* Four vectors of words that are packed to bytes, or bytes that are unpacked to words, keep to their parts of
 * 16 bytes. This changes words 4l + k and 4k + l with each other, before or after. */
STATE_TARGET static inline __m512i state_vectors_across(__m512i x) {
    return _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0),
                                    x);
}

/* 64 codes in a table of bytes, by instructions that know 128 of them. */
STATE_TARGET static inline __m512i state_vectors_look_up(const uint8_t *table, __m512i codes,
                                                         __mmask64 upper) {
    __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(table), codes, _mm512_load_si512(table + 64));
    __m512i high =
        _mm512_permutex2var_epi8(_mm512_load_si512(table + 128), codes, _mm512_load_si512(table + 192));
    return _mm512_mask_blend_epi8(upper, low, high);
}

STATE_TARGET static inline void state_vectors_decode_64(const state_tables *t, __m512i codes, __m512 scale,
                                                        float *x) {
    codes = state_vectors_across(codes);
    __mmask64 upper = _mm512_movepi8_mask(codes);
    __m512i b0 = state_vectors_look_up(t->plane[0], codes, upper),
            b1 = state_vectors_look_up(t->plane[1], codes, upper);
    __m512i b2 = state_vectors_look_up(t->plane[2], codes, upper),
            b3 = state_vectors_look_up(t->plane[3], codes, upper);
    __m512i low[2] = { _mm512_unpacklo_epi8(b0, b1), _mm512_unpackhi_epi8(b0, b1) };
    __m512i high[2] = { _mm512_unpacklo_epi8(b2, b3), _mm512_unpackhi_epi8(b2, b3) };
    for (int k = 0; k < 2; k++, x += 32) {
        __m512 first = _mm512_castsi512_ps(_mm512_unpacklo_epi16(low[k], high[k]));
        __m512 second = _mm512_castsi512_ps(_mm512_unpackhi_epi16(low[k], high[k]));
        _mm512_storeu_ps(x, _mm512_mul_ps(scale, first));
        _mm512_storeu_ps(x + 16, _mm512_mul_ps(scale, second));
    }
}

/* ---- encoding ---- */

/* Infinity by an inverse of 0 is no number: state_place_of ends at the first place of the last decade. */
enum { STATE_LOST = (2 << (STATE_DECADES - 1)) - 1 };

/* Codes of sizes, those of NaN are of step 0 or, without a sign, 1. */
STATE_TARGET static inline __m512i state_vectors_codes_of_sizes(const state_tables *t, __m512 size) {
    __m512 told = _mm512_max_ps(size, _mm512_set1_ps(STATE_SMALLEST)); /* of NaN the second one */
    __m512i octave = _mm512_srli_epi32(_mm512_castps_si512(told), 23);
    __m512 border = _mm512_permutex2var_ps(_mm512_load_ps(t->border), octave, _mm512_load_ps(t->border + 16));
    __m512i step =
        _mm512_permutex2var_epi32(_mm512_load_si512(t->before), octave, _mm512_load_si512(t->before + 16));
    __mmask16 reached = _mm512_cmp_ps_mask(size, border, _CMP_GE_OQ);
    step = _mm512_mask_add_epi32(step, reached, step, _mm512_set1_epi32(1));
    __m512 place = _mm512_sub_ps(_mm512_mul_ps(size, _mm512_permutexvar_ps(step, _mm512_load_ps(t->slope))),
                                 _mm512_permutexvar_ps(step, _mm512_load_ps(t->ninth)));
    /* of NaN the second one */
    place = _mm512_min_ps(place, _mm512_permutexvar_ps(step, _mm512_load_ps(t->most)));
    return _mm512_add_epi32(_mm512_cvttps_epi32(place),
                            _mm512_permutexvar_epi32(step, _mm512_load_si512(t->base)));
}

/* What is negative has the code as far below that of 0, and -1 where there is none: packing makes it 0. */
STATE_TARGET static inline __m512i state_vectors_codes(const state_tables *t, const bool positive, __m512 x,
                                                       __m512 inverse) {
    if (positive) {
        __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
        __m512 size = _mm512_mul_ps(x, inverse);
        __mmask16 lost = _mm512_cmp_ps_mask(size, size, _CMP_UNORD_Q);
        __m512i code =
            _mm512_mask_mov_epi32(state_vectors_codes_of_sizes(t, size), lost, _mm512_set1_epi32(STATE_LOST));
        return _mm512_maskz_mov_epi32(above, code);
    }
    __m512i code = state_vectors_codes_of_sizes(t, _mm512_mul_ps(_mm512_abs_ps(x), inverse));
    __mmask16 below = _mm512_movepi32_mask(_mm512_castps_si512(x));
    return _mm512_mask_sub_epi32(code, below, _mm512_set1_epi32(2 * STATE_ZERO), code);
}

/* 64 codes in bytes. */
STATE_TARGET static inline __m512i state_vectors_packed(const __m512i words[4]) {
    return state_vectors_across(
        _mm512_packus_epi16(_mm512_packs_epi32(words[0], words[1]), _mm512_packs_epi32(words[2], words[3])));
}
#endif
