/* Blocks with AVX2, two rows and sixteen columns at a time. Its product of bytes saturates, so codes are
 * widened to 16 bits in registers; what is multiplied and added in pairs there fits into 32. */
#include "base/instructions.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { PAIR = 2, VECTORS = 2, LANES = 8 };
#define TARGET __attribute__((target("avx2")))

/* The four codes of a line of a, unsigned, four times. */
TARGET static inline __m256i broadcast(uint32_t four) {
    return _mm256_cvtepu8_epi16(_mm_set1_epi32((int)four));
}

/* Neighbouring sums belong to one column: they are added, and the columns put into their order. */
TARGET static inline __m256i together(__m256i low, __m256i high) {
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xd8);
}

/* Sums of `rows` rows, one or two, from a on, for sixteen columns: eight registers of four pairs each. */
TARGET static inline __attribute__((always_inline)) void
multiply(int64_t fours, const int rows, const uint32_t *a, const uint32_t *b, __m256i sum[PAIR][VECTORS]) {
    __m256i x[PAIR][2 * VECTORS];
    for (int i = 0; i < PAIR; i++)
        for (int j = 0; j < 2 * VECTORS; j++) x[i][j] = _mm256_setzero_si256();
    for (int64_t f = 0; f < fours; f++, a += MATMUL_INT8_ROWS, b += MATMUL_INT8_COLUMNS) {
        __m256i ai[PAIR];
        for (int i = 0; i < rows; i++) ai[i] = broadcast(a[i]);
#pragma GCC unroll 4
        for (int j = 0; j < 2 * VECTORS; j++) {
            __m256i bj = _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(b + j * LANES / 2)));
            for (int i = 0; i < rows; i++) x[i][j] = _mm256_add_epi32(x[i][j], _mm256_madd_epi16(ai[i], bj));
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < VECTORS; j++) sum[i][j] = together(x[i][2 * j], x[i][2 * j + 1]);
}

TARGET static void block(int64_t fours, int64_t rows, const uint32_t *a, const uint32_t *b,
                         const int32_t *start, int32_t *sum) {
    for (int64_t j = 0; j < MATMUL_INT8_COLUMNS; j += VECTORS * LANES)
        for (int64_t i = 0; i < rows; i += PAIR) {
            __m256i x[PAIR][VECTORS];
            int64_t here = rows - i < PAIR ? 1 : PAIR;
            if (here == PAIR)
                multiply(fours, PAIR, a + i, b + j, x);
            else
                multiply(fours, 1, a + i, b + j, x);
            for (int64_t k = 0; k < here; k++)
                for (int64_t v = 0; v < VECTORS; v++) {
                    __m256i begin = _mm256_load_si256((const __m256i *)(start + j + v * LANES));
                    __m256i *to = (__m256i *)(sum + (i + k) * MATMUL_INT8_COLUMNS + j + v * LANES);
                    _mm256_store_si256(to, _mm256_add_epi32(begin, x[k][v]));
                }
        }
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX2); }

const matmul_int8_kernel matmul_int8_kernel_avx2 = { .name = "avx2",
                                                     .available = available,
                                                     .block = block,
                                                     .stream = matmul_int8_stream_avx2,
                                                     .panels = 1,
                                                     .fill = 1 };
#endif
