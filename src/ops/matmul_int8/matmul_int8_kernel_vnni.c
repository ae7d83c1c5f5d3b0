/* Blocks of 14 x 32 sums with AVX-512 VNNI: one instruction multiplies 64 pairs of bytes and adds the
 * products, four at a time, to 16 sums. 28 registers hold sums, two the codes of b, one a broadcast of a. */
#include "base/instructions.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { ROWS = MATMUL_INT8_ROWS, COLUMNS = MATMUL_INT8_COLUMNS, VECTOR = 16 };
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

/* One body for every number of rows: `rows` is a constant wherever it is inlined. */
TARGET static inline __attribute__((always_inline)) void multiply(int64_t fours, const int rows,
                                                                  const uint32_t *a, const uint32_t *b,
                                                                  const int32_t *start, int32_t *sum) {
    __m512i x[ROWS][2], s0 = _mm512_load_si512(start), s1 = _mm512_load_si512(start + VECTOR);
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) x[i][0] = s0, x[i][1] = s1;
    for (int64_t p = 0; p < fours; p++, a += ROWS, b += COLUMNS) {
        __m512i b0 = _mm512_load_si512(b), b1 = _mm512_load_si512(b + VECTOR);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            __m512i ai = _mm512_set1_epi32((int)a[i]);
            x[i][0] = _mm512_dpbusd_epi32(x[i][0], ai, b0);
            x[i][1] = _mm512_dpbusd_epi32(x[i][1], ai, b1);
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        _mm512_store_si512(sum + i * COLUMNS, x[i][0]);
        _mm512_store_si512(sum + i * COLUMNS + VECTOR, x[i][1]);
    }
}

TARGET static void block(int64_t fours, int64_t rows, const uint32_t *a, const uint32_t *b,
                         const int32_t *start, int32_t *sum) {
    switch (rows) {
    case 1: multiply(fours, 1, a, b, start, sum); break;
    case 2: multiply(fours, 2, a, b, start, sum); break;
    case 3:
    case 4: multiply(fours, 4, a, b, start, sum); break;
    case 5:
    case 6:
    case 7:
    case 8: multiply(fours, 8, a, b, start, sum); break;
    default: multiply(fours, 14, a, b, start, sum); break;
    }
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX512_VNNI); }

const matmul_int8_kernel matmul_int8_kernel_vnni = { .name = "avx512-vnni",
                                                     .available = available,
                                                     .block = block,
                                                     .stream = matmul_int8_stream_vnni,
                                                     .panels = 1,
                                                     .fill = 1 };
#endif
