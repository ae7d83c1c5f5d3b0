/* Blocks of 14 x 32 sums: 28 of the 32 registers, two of them per row, one broadcast of a for two products.
 */
#include "base/instructions.h"
#include "ops/matmul/matmul_stream.h"

#if defined(__x86_64__)
#include "ops/matmul/matmul_avx512.h"

enum { ROWS = 14, COLUMNS = 32 };

/* One body for every number of rows: `rows` is a constant wherever it is inlined. */
TARGET static inline __attribute__((always_inline)) void
multiply(int64_t depth, const int rows, const float *a, const float *b, float *sum, matmul_prefetch *ask) {
    __m512 x[ROWS][2];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) x[i][0] = x[i][1] = _mm512_setzero_ps();
    for (int64_t p = 0; p < depth; p++, a += ROWS, b += COLUMNS) {
        if (p % MATMUL_ASK_EVERY == 0) matmul_ask_once(ask);
        __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + VECTOR);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            __m512 ai = _mm512_set1_ps(a[i]);
            x[i][0] = _mm512_fmadd_ps(ai, b0, x[i][0]);
            x[i][1] = _mm512_fmadd_ps(ai, b1, x[i][1]);
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
    switch (rows) {
    case 1: multiply(depth, 1, a, b, sum, ask); break;
    case 2: multiply(depth, 2, a, b, sum, ask); break;
    case 3: multiply(depth, 3, a, b, sum, ask); break;
    case 4: multiply(depth, 4, a, b, sum, ask); break;
    case 5: multiply(depth, 5, a, b, sum, ask); break;
    case 6: multiply(depth, 6, a, b, sum, ask); break;
    case 7: multiply(depth, 7, a, b, sum, ask); break;
    case 8: multiply(depth, 8, a, b, sum, ask); break;
    case 9: multiply(depth, 9, a, b, sum, ask); break;
    case 10: multiply(depth, 10, a, b, sum, ask); break;
    case 11: multiply(depth, 11, a, b, sum, ask); break;
    case 12: multiply(depth, 12, a, b, sum, ask); break;
    case 13: multiply(depth, 13, a, b, sum, ask); break;
    default: multiply(depth, 14, a, b, sum, ask); break;
    }
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX512); }

const matmul_kernel matmul_kernel_avx512 = { .name = "avx512",
                                             .type = DTYPE_F32,
                                             .fill = 1,
                                             .rows = ROWS,
                                             .columns = COLUMNS,
                                             .available = available,
                                             .block = block,
                                             .streams = matmul_streams_avx512,
                                             .stream = matmul_stream_avx512,
                                             .pack_few = matmul_pack_avx512,
                                             .pack_a = matmul_pack_avx512,
                                             .pack_b = matmul_pack_avx512,
                                             .pack_apart = matmul_pack_apart_avx512 };
#endif
