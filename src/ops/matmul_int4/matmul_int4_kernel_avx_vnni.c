/* A panel with AVX-VNNI. */
#include "base/instructions.h"
#include "ops/matmul_int4/matmul_int4_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,f16c,avxvnni")))
#define INLINE inline __attribute__((always_inline))

TARGET static INLINE __m256i total(const __m256i *low, const __m256i *high, const int8_t *a, int32_t start) {
    __m256i sum = _mm256_set1_epi32(start);
#pragma GCC unroll 4
    for (int w = 0; w < CODES4_WORDS; w++) {
        const int32_t *fours = (const int32_t *)(const void *)(a + 8 * w);
        sum = _mm256_dpbusd_avx_epi32(sum, low[w], _mm256_set1_epi32(fours[0]));
        sum = _mm256_dpbusd_avx_epi32(sum, high[w], _mm256_set1_epi32(fours[1]));
    }
    return sum;
}

#include "ops/matmul_int4/matmul_int4_256.h"

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX_VNNI); }

const matmul_int4_kernel matmul_int4_kernel_avx_vnni = { .name = "avx-vnni",
                                                         .available = available,
                                                         .block = block };
#endif
