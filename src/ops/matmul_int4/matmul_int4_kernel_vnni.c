/* A panel in vectors of 64 bytes with AVX-512 VNNI: a register has a word of each output. */
#include "base/instructions.h"
#include "ops/matmul_int4/matmul_int4_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { AHEAD = 4 << 10 /* bytes that are asked for beforehand: a panel follows the other */ };
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE inline __attribute__((always_inline))

TARGET static INLINE __m512i fours(const int8_t *a) {
    return _mm512_set1_epi32(*(const int32_t *)(const void *)a);
}

/* Group g of all rows, added to x. */
TARGET static INLINE void add_group(const matmul_int4_block *s, int64_t g, const int rows, __m512 *x) {
    const uint8_t *codes = s->codes + g * CODES4_PANEL * CODES4_BYTES;
    const __m512i mask = _mm512_set1_epi8(15);
    __m512i low[CODES4_WORDS], high[CODES4_WORDS];
#pragma GCC unroll 4
    for (int w = 0; w < CODES4_WORDS; w++) {
        __m512i both = _mm512_loadu_si512(codes + 64 * w);
        low[w] = _mm512_and_si512(both, mask);
        high[w] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
        _mm_prefetch((const char *)codes + AHEAD + 64 * w, _MM_HINT_T0);
    }
    __m512 scales =
        _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(s->scales + g * CODES4_PANEL)));
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        int64_t at = i * s->groups + g;
        const int8_t *a = s->a + at * CODES4_GROUP;
        __m512i sum = _mm512_set1_epi32(s->starts[at]);
#pragma GCC unroll 4
        for (int w = 0; w < CODES4_WORDS; w++) {
            sum = _mm512_dpbusd_epi32(sum, low[w], fours(a + 8 * w));
            sum = _mm512_dpbusd_epi32(sum, high[w], fours(a + 8 * w + 4));
        }
        __m512 by = _mm512_mul_ps(_mm512_set1_ps(s->scales_a[at]), scales);
        x[i] = _mm512_add_ps(x[i], _mm512_mul_ps(_mm512_cvtepi32_ps(sum), by));
    }
}

/* One body for every number of rows: `rows` is a constant wherever it is inlined. */
TARGET static INLINE void multiply(const matmul_int4_block *s, const int rows) {
    for (int64_t from = 0; from < s->groups; from += MATMUL_INT4_SLICE) {
        int64_t to = from + MATMUL_INT4_SLICE < s->groups ? from + MATMUL_INT4_SLICE : s->groups;
        __m512 x[MATMUL_INT4_ROWS];
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) x[i] = _mm512_setzero_ps();
        for (int64_t g = from; g < to; g++) add_group(s, g, rows, x);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            float *sum = s->sum + i * s->stride;
            __m512 before = from ? _mm512_loadu_ps(sum) : _mm512_setzero_ps();
            _mm512_storeu_ps(sum, _mm512_add_ps(before, x[i]));
        }
    }
}

TARGET static void block(const matmul_int4_block *s) {
    switch (s->rows) {
    case 1: multiply(s, 1); break;
    case 2: multiply(s, 2); break;
    case 3: multiply(s, 3); break;
    case 4: multiply(s, 4); break;
    case 5: multiply(s, 5); break;
    case 6: multiply(s, 6); break;
    case 7: multiply(s, 7); break;
    default: multiply(s, 8); break;
    }
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX512_VNNI); }

const matmul_int4_kernel matmul_int4_kernel_vnni = { .name = "avx512-vnni",
                                                     .available = available,
                                                     .block = block };
#endif
