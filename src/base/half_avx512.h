/* Rounding to bf16 in registers, 32 numbers at a time, for loops that compute in AVX-512: the bits of
 * base/half.h. */
#pragma once

#include "base/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#define HALF_TARGET __attribute__((target("avx512f,avx512bw")))
#define HALF_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

/* Has the processor what functions of either target take? Else they must not be called. */
static inline bool half_avx512_usable(void) { return __builtin_cpu_supports("avx512bw"); }
static inline bool half_avx512_bf16_usable(void) {
    return half_avx512_usable() && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bf16");
}

/* Are there NaNs among them? */
HALF_TARGET static inline bool half_any_nan(__m512 low, __m512 high) {
    return __builtin_expect(_mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q) != 0, 0);
}

/* The upper 16 bits of `low` and `high`, in their order, but of NaN in x and y, whose bits those are, a quiet
 * one. */
HALF_TARGET static inline __m512i half_upper(__m512i low, __m512i high, __m512 x, __m512 y) {
    if (half_any_nan(x, y)) {
        const __m512i quiet = _mm512_set1_epi32(0x400000);
        low =
            _mm512_mask_or_epi32(low, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_castps_si512(x), quiet);
        high =
            _mm512_mask_or_epi32(high, _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), _mm512_castps_si512(y), quiet);
    }
    const __m512i together = _mm512_packus_epi32(_mm512_srli_epi32(low, 16), _mm512_srli_epi32(high, 16));
    return _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), together);
}

/* As half_to_bf16, `low` first. */
HALF_TARGET static inline __m512i half_bf16_of_words(__m512 low, __m512 high) {
    const __m512i l = _mm512_castps_si512(low), h = _mm512_castps_si512(high);
    const __m512i below = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1);
    const __m512i odd_l = _mm512_and_si512(_mm512_srli_epi32(l, 16), one),
                  odd_h = _mm512_and_si512(_mm512_srli_epi32(h, 16), one);
    return half_upper(_mm512_add_epi32(_mm512_add_epi32(l, below), odd_l),
                      _mm512_add_epi32(_mm512_add_epi32(h, below), odd_h), low, high);
}

/* The same by the instruction for it, which takes subnormal numbers for zeros: those go the other way. */
HALF_BF16_TARGET static inline __m512i half_bf16_of_two(__m512 low, __m512 high) {
    enum { SUBNORMAL = 0x20 };
    const __mmask16 lost = _mm512_fpclass_ps_mask(low, SUBNORMAL) | _mm512_fpclass_ps_mask(high, SUBNORMAL);
    if (__builtin_expect(lost != 0, 0)) return half_bf16_of_words(low, high);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* As half_to_bf16_stochastic, with 16 random bits for each. */
HALF_TARGET static inline __m512i half_bf16_drawn(__m512 low, __m512 high, __m512i random) {
    const __m512i l = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(random)),
                  h = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(random, 1));
    return half_upper(_mm512_add_epi32(_mm512_castps_si512(low), l),
                      _mm512_add_epi32(_mm512_castps_si512(high), h), low, high);
}
#endif
