/* What the AVX-512 files of the product share: some first lanes of a vector, and a square of 16 x 16 turned
 * in registers. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "base/dtype.h"

enum { VECTOR = 16, ALL_LANES = 0xffff };
#ifndef TARGET /* of who includes it: these and more */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#endif

TARGET static inline __mmask16 first_lanes(int64_t lanes) {
    return lanes >= VECTOR ? ALL_LANES : (__mmask16)((1u << lanes) - 1);
}

/* The numbers at places `inside` of the vector from place `from` on; the type is a constant wherever this is
 * inlined. */
TARGET static inline __attribute__((always_inline)) __m512 fetch(const void *data, int64_t from,
                                                                 __mmask16 inside, const dtype type) {
    if (!dtype_is_half(type)) return _mm512_maskz_loadu_ps(inside, (const float *)data + from);
    __m256i half = _mm256_maskz_loadu_epi16(inside, (const uint16_t *)data + from);
    if (type == DTYPE_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* Rows become columns: pairs, pairs of pairs, quarters, halves. */
TARGET static inline __attribute__((always_inline)) void turn(__m512 x[VECTOR]) {
    __m512 t[VECTOR];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            __m512d upper = _mm512_castps_pd(t[i + k]), lower = _mm512_castps_pd(t[i + k + 2]);
            x[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(upper, lower));
            x[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(upper, lower));
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        x[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}
