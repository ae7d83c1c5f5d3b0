/* Blocks of 14 x 32 sums, as those of f32, of words that hold two depths: one instruction multiplies 32 pairs
 * of bf16 and adds the products, two at a time, to 16 sums. */
#include "base/instructions.h"
#include "ops/matmul/matmul_stream.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { ROWS = 14, COLUMNS = 32, PAIR = 2, VECTOR = 16 };
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/* One body for every number of rows: `rows` is a constant wherever it is inlined. */
TARGET static inline __attribute__((always_inline)) void multiply(int64_t pairs, const int rows,
                                                                  const uint32_t *a, const uint32_t *b,
                                                                  float *sum, matmul_prefetch *ask) {
    __m512 x[ROWS][2];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) x[i][0] = x[i][1] = _mm512_setzero_ps();
    for (int64_t p = 0; p < pairs; p++, a += ROWS, b += COLUMNS) {
        if (p % (MATMUL_ASK_EVERY / PAIR) == 0) matmul_ask_once(ask);
        __m512bh b0 = (__m512bh)_mm512_load_si512(b), b1 = (__m512bh)_mm512_load_si512(b + VECTOR);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            __m512bh ai = (__m512bh)_mm512_set1_epi32((int)a[i]);
            x[i][0] = _mm512_dpbf16_ps(x[i][0], ai, b0);
            x[i][1] = _mm512_dpbf16_ps(x[i][1], ai, b1);
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        _mm512_store_ps(sum + i * COLUMNS, x[i][0]);
        _mm512_store_ps(sum + i * COLUMNS + VECTOR, x[i][1]);
    }
}

TARGET static void block(int64_t depth, int64_t rows, const void *a, const void *b, float *sum,
                         matmul_prefetch *ask) {
    int64_t pairs = depth / PAIR;
    switch (rows) {
    case 1: multiply(pairs, 1, a, b, sum, ask); break;
    case 2: multiply(pairs, 2, a, b, sum, ask); break;
    case 3:
    case 4: multiply(pairs, 4, a, b, sum, ask); break;
    case 5:
    case 6:
    case 7:
    case 8: multiply(pairs, 8, a, b, sum, ask); break;
    case 9:
    case 10:
    case 11: multiply(pairs, 11, a, b, sum, ask); break;
    default: multiply(pairs, 14, a, b, sum, ask); break;
    }
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX512_BF16); }

const matmul_kernel matmul_kernel_avx512_bf16 = { .name = "avx512-bf16",
                                                  .type = DTYPE_BF16,
                                                  .fill = PAIR,
                                                  .rows = ROWS,
                                                  .columns = COLUMNS,
                                                  .available = available,
                                                  .block = block,
                                                  .streams = matmul_streams_avx512_bf16,
                                                  .stream = matmul_stream_avx512_bf16,
                                                  .pack_few = matmul_pack_pairs_avx512,
                                                  .pack_a = matmul_pack_pairs_avx512,
                                                  .pack_b = matmul_pack_pairs_avx512 };
#endif
