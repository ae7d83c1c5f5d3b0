/* What the 256-bit files of few rows of codes share; TARGET is that of who includes it. */
#pragma once

#include <immintrin.h>

enum { BYTES = 32, GROUP = 2 };
#define INLINE inline __attribute__((always_inline))
typedef __m256i vec;

TARGET static INLINE vec zero(void) { return _mm256_setzero_si256(); }
TARGET static INLINE vec load(const int32_t *p) {
    return _mm256_load_si256((const __m256i *)(const void *)p);
}
TARGET static INLINE void store(int32_t *p, vec x) { _mm256_store_si256((__m256i *)(void *)p, x); }
TARGET static INLINE vec bytes_at(const int8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
TARGET static INLINE vec fours(const int8_t *p) {
    return _mm256_set1_epi32(*(const int32_t *)(const void *)p);
}
TARGET static INLINE void ask(const char *p) { _mm_prefetch(p, _MM_HINT_T1); }
TARGET static INLINE void ask_near(const char *p) { _mm_prefetch(p, _MM_HINT_T0); }

TARGET static INLINE int32_t in_all(vec x) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

TARGET static INLINE void weave(vec b[4]) {
    vec low = _mm256_unpacklo_epi8(b[0], b[1]), high = _mm256_unpackhi_epi8(b[0], b[1]);
    vec low_after = _mm256_unpacklo_epi8(b[2], b[3]), high_after = _mm256_unpackhi_epi8(b[2], b[3]);
    b[0] = _mm256_unpacklo_epi16(low, low_after), b[1] = _mm256_unpackhi_epi16(low, low_after);
    b[2] = _mm256_unpacklo_epi16(high, high_after), b[3] = _mm256_unpackhi_epi16(high, high_after);
}

TARGET static INLINE void in_order(vec x[4]) {
    vec first = _mm256_permute2x128_si256(x[0], x[1], 0x20),
        third = _mm256_permute2x128_si256(x[0], x[1], 0x31);
    vec second = _mm256_permute2x128_si256(x[2], x[3], 0x20),
        last = _mm256_permute2x128_si256(x[2], x[3], 0x31);
    x[0] = first, x[1] = second, x[2] = third, x[3] = last;
}
