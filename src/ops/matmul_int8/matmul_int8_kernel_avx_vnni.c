/* Blocks with the 256-bit form of VNNI, which processors without AVX-512 have: three rows and 32 columns at a
 * time, twelve of the sixteen registers for sums. */
#include "base/instructions.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { SOME = 3, VECTORS = 4, LANES = 8 };
#define TARGET __attribute__((target("avx2,avxvnni")))

/* Sums of `rows` rows, a constant wherever this is inlined. */
TARGET static inline __attribute__((always_inline)) void multiply(int64_t fours, const int rows,
                                                                  const uint32_t *a, const uint32_t *b,
                                                                  const int32_t *start, int32_t *sum) {
    __m256i x[SOME][VECTORS];
#pragma GCC unroll 4
    for (int j = 0; j < VECTORS; j++)
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++) x[i][j] = _mm256_load_si256((const __m256i *)(start + j * LANES));
    for (int64_t f = 0; f < fours; f++, a += MATMUL_INT8_ROWS, b += MATMUL_INT8_COLUMNS) {
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++) {
            __m256i ai = _mm256_set1_epi32((int)a[i]);
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                x[i][j] =
                    _mm256_dpbusd_avx_epi32(x[i][j], ai, _mm256_load_si256((const __m256i *)(b + j * LANES)));
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            _mm256_store_si256((__m256i *)(sum + i * MATMUL_INT8_COLUMNS + j * LANES), x[i][j]);
}

TARGET static void block(int64_t fours, int64_t rows, const uint32_t *a, const uint32_t *b,
                         const int32_t *start, int32_t *sum) {
    int64_t i = 0;
    for (; i + SOME <= rows; i += SOME) multiply(fours, SOME, a + i, b, start, sum + i * MATMUL_INT8_COLUMNS);
    if (rows - i == 2)
        multiply(fours, 2, a + i, b, start, sum + i * MATMUL_INT8_COLUMNS);
    else if (rows - i == 1)
        multiply(fours, 1, a + i, b, start, sum + i * MATMUL_INT8_COLUMNS);
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX_VNNI); }

const matmul_int8_kernel matmul_int8_kernel_avx_vnni = { .name = "avx-vnni",
                                                         .available = available,
                                                         .block = block,
                                                         .stream = matmul_int8_stream_avx_vnni,
                                                         .panels = 1,
                                                         .fill = 1 };
#endif
