/* Decoding in registers, for loops that do more in one go than ops/state_vectors.h: included where there are
 * the instructions. */
#pragma once

#include "ops/state.h"
#include "ops/state_vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define STATE_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))

/* The map's values byte by byte: the lowest bytes of all of them, then the next, (4, STATE_CODES). */
const uint8_t *state_vectors_bytes(bool positive);

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

STATE_TARGET static inline void state_vectors_decode_64(const uint8_t *bytes, __m512i codes, __m512 scale,
                                                        float *x) {
    codes = state_vectors_across(codes);
    __mmask64 upper = _mm512_movepi8_mask(codes);
    __m512i b0 = state_vectors_look_up(bytes, codes, upper),
            b1 = state_vectors_look_up(bytes + STATE_CODES, codes, upper);
    __m512i b2 = state_vectors_look_up(bytes + 2 * STATE_CODES, codes, upper),
            b3 = state_vectors_look_up(bytes + 3 * STATE_CODES, codes, upper);
    __m512i low[2] = { _mm512_unpacklo_epi8(b0, b1), _mm512_unpackhi_epi8(b0, b1) };
    __m512i high[2] = { _mm512_unpacklo_epi8(b2, b3), _mm512_unpackhi_epi8(b2, b3) };
    for (int k = 0; k < 2; k++, x += 32) {
        __m512 first = _mm512_castsi512_ps(_mm512_unpacklo_epi16(low[k], high[k]));
        __m512 second = _mm512_castsi512_ps(_mm512_unpackhi_epi16(low[k], high[k]));
        _mm512_storeu_ps(x, _mm512_mul_ps(scale, first));
        _mm512_storeu_ps(x + 16, _mm512_mul_ps(scale, second));
    }
}
#endif
