/* Blocks of 6 x 16 sums: 12 of the 16 registers, two of them per row, one broadcast of a for two products. */
#include "base/instructions.h"
#include "ops/matmul/matmul_stream.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { ROWS = 6, COLUMNS = 16, VECTOR = 8 };
#define TARGET __attribute__((target("avx2,fma")))

/* One body for every number of rows: `rows` is a constant wherever it is inlined. */
TARGET static inline __attribute__((always_inline)) void
multiply(int64_t depth, const int rows, const float *a, const float *b, float *sum, matmul_prefetch *ask) {
    __m256 x[ROWS][2];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) x[i][0] = x[i][1] = _mm256_setzero_ps();
    for (int64_t p = 0; p < depth; p++, a += ROWS, b += COLUMNS) {
        if (p % MATMUL_ASK_EVERY == 0) matmul_ask_once(ask);
        __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + VECTOR);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m256 ai = _mm256_broadcast_ss(a + i);
            x[i][0] = _mm256_fmadd_ps(ai, b0, x[i][0]);
            x[i][1] = _mm256_fmadd_ps(ai, b1, x[i][1]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        _mm256_store_ps(sum + i * COLUMNS, x[i][0]);
        _mm256_store_ps(sum + i * COLUMNS + VECTOR, x[i][1]);
    }
}

TARGET static void block(int64_t depth, int64_t rows, const void *a, const void *b, float *sum,
                         matmul_prefetch *ask) {
    switch (rows) {
    case 1: multiply(depth, 1, a, b, sum, ask); break;
    case 2: multiply(depth, 2, a, b, sum, ask); break;
    case 3: multiply(depth, 3, a, b, sum, ask); break;
    case 4: multiply(depth, 4, a, b, sum, ask); break;
    case 5: multiply(depth, 5, a, b, sum, ask); break;
    default: multiply(depth, 6, a, b, sum, ask); break;
    }
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX2); }

const matmul_kernel matmul_kernel_avx2 = { .name = "avx2",
                                           .type = DTYPE_F32,
                                           .fill = 1,
                                           .rows = ROWS,
                                           .columns = COLUMNS,
                                           .available = available,
                                           .block = block,
                                           .streams = matmul_streams_avx2,
                                           .stream = matmul_stream_avx2,
                                           .pack_few = matmul_pack_portable,
                                           .pack_a = matmul_pack_portable,
                                           .pack_b = matmul_pack_portable,
                                           .pack_apart = matmul_pack_apart_portable };
#endif
