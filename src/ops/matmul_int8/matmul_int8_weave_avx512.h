/* Four rows of codes become vectors of fours, as products of bytes take them, and the order that this leaves:
 * what the AVX-512 files of few rows of codes share. */
#pragma once

#include <immintrin.h>

#define INLINE inline __attribute__((always_inline))
typedef __m512i vec;
#ifndef TARGET /* of who includes it: these and more */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#endif

TARGET static INLINE void weave(vec b[4]) {
    vec low = _mm512_unpacklo_epi8(b[0], b[1]), high = _mm512_unpackhi_epi8(b[0], b[1]);
    vec low_after = _mm512_unpacklo_epi8(b[2], b[3]), high_after = _mm512_unpackhi_epi8(b[2], b[3]);
    b[0] = _mm512_unpacklo_epi16(low, low_after), b[1] = _mm512_unpackhi_epi16(low, low_after);
    b[2] = _mm512_unpacklo_epi16(high, high_after), b[3] = _mm512_unpackhi_epi16(high, high_after);
}

/* Quarters of the vectors are a square that is turned. */
TARGET static INLINE void in_order(vec x[4]) {
    vec low = _mm512_shuffle_i32x4(x[0], x[1], 0x44), high = _mm512_shuffle_i32x4(x[0], x[1], 0xee);
    vec low_after = _mm512_shuffle_i32x4(x[2], x[3], 0x44),
        high_after = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
    x[0] = _mm512_shuffle_i32x4(low, low_after, 0x88), x[1] = _mm512_shuffle_i32x4(low, low_after, 0xdd);
    x[2] = _mm512_shuffle_i32x4(high, high_after, 0x88), x[3] = _mm512_shuffle_i32x4(high, high_after, 0xdd);
}
