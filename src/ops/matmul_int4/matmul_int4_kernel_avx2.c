/* A panel with AVX2, whose products of bytes are added up in 16 bits, which hold those of a group. Whatever
 * has AVX2 widens f16 too. */
#include "base/instructions.h"
#include "ops/matmul_int4/matmul_int4_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,f16c")))
#define INLINE inline __attribute__((always_inline))

TARGET static INLINE __m256i total(const __m256i *low, const __m256i *high, const int8_t *a, int32_t start) {
    __m256i pairs = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int w = 0; w < CODES4_WORDS; w++) {
        const int32_t *fours = (const int32_t *)(const void *)(a + 8 * w);
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(low[w], _mm256_set1_epi32(fours[0])));
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(high[w], _mm256_set1_epi32(fours[1])));
    }
    return _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "ops/matmul_int4/matmul_int4_256.h"

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX2); }

const matmul_int4_kernel matmul_int4_kernel_avx2 = { .name = "avx2", .available = available, .block = block };
#endif
