/* Blocks of 6 x 16 sums: 12 of the 16 registers, two of them per row, one broadcast of a for two products. */
#include "base/instructions.h"
#include "ops/matmul/matmul_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { ROWS = 6, COLUMNS = 16, VECTOR = 8, DEPTHS = 8 };
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

/* ---- few rows ---- */

/* b's rows run along the sums: `depths` at a time, so that the sums are read and written once for them.
 */
TARGET static inline __attribute__((always_inline)) void
add_depths(const matmul_strip *s, const matmul_operand *b, int64_t depth, const int depths) {
    const float *from = (const float *)b->data + depth * b->stride;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *a = s->a + depth * s->rows + i;
        float *sum = s->sum + i * s->columns;
        int64_t j = 0;
        for (; j + VECTOR <= s->columns; j += VECTOR) {
            __m256 x = depth ? _mm256_loadu_ps(sum + j) : _mm256_setzero_ps();
#pragma GCC unroll 8
            for (int p = 0; p < depths; p++) {
                const float *row = from + p * b->stride + j;
                if (i == 0) _mm_prefetch((const char *)(row + DEPTHS * b->stride), _MM_HINT_T0);
                x = _mm256_fmadd_ps(_mm256_broadcast_ss(a + p * s->rows), _mm256_loadu_ps(row), x);
            }
            _mm256_storeu_ps(sum + j, x);
        }
        for (; j < s->columns; j++) {
            float x = depth ? sum[j] : 0;
            for (int p = 0; p < depths; p++) x = __builtin_fmaf(a[p * s->rows], from[p * b->stride + j], x);
            sum[j] = x;
        }
    }
}

/* Rows become columns: pairs, pairs of pairs, halves. */
TARGET static inline __attribute__((always_inline)) void turn(__m256 x[VECTOR]) {
    __m256 t[VECTOR];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0x44);
            x[i + 2 * k + 1] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0xee);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) x[i] = t[i];
}

/* b's rows run along the depth: squares of 8 x 8 are turned in registers. Columns from j. */
TARGET static void sum_transposed(const matmul_strip *s, const matmul_operand *b, int64_t j) {
    __m256 sum[MATMUL_STREAM_ROWS] = { 0 };
    const float *from = (const float *)b->data + j * b->stride;
    int64_t p = 0;
    for (; p + VECTOR <= s->depth; p += VECTOR) {
        __m256 x[VECTOR];
#pragma GCC unroll 8
        for (int i = 0; i < VECTOR; i++) {
            x[i] = _mm256_loadu_ps(from + i * b->stride + p);
            _mm_prefetch((const char *)(from + (VECTOR + i) * b->stride + p), _MM_HINT_T0);
        }
        turn(x);
        for (int64_t i = 0; i < s->rows; i++)
#pragma GCC unroll 8
            for (int q = 0; q < VECTOR; q++)
                sum[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(s->a + (p + q) * s->rows + i), x[q], sum[i]);
    }
    for (int64_t i = 0; i < s->rows; i++) _mm256_storeu_ps(s->sum + i * s->columns + j, sum[i]);
    for (; p < s->depth; p++)
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t k = 0; k < VECTOR; k++) {
                float *x = s->sum + i * s->columns + j + k;
                *x = __builtin_fmaf(s->a[p * s->rows + i], from[k * b->stride + p], *x);
            }
}

/* The columns from j, fewer than a vector has. */
TARGET static void sum_rest(const matmul_strip *s, const matmul_operand *b, int64_t j) {
    for (; j < s->columns; j++)
        for (int64_t i = 0; i < s->rows; i++) {
            float x = 0;
            for (int64_t p = 0; p < s->depth; p++)
                x = __builtin_fmaf(s->a[p * s->rows + i], ((const float *)b->data)[j * b->stride + p], x);
            s->sum[i * s->columns + j] = x;
        }
}

TARGET static void stream(const matmul_strip *s, const matmul_operand *b) {
    if (!b->across) {
        int64_t j = 0;
        for (; j + VECTOR <= s->columns; j += VECTOR) sum_transposed(s, b, j);
        sum_rest(s, b, j);
        return;
    }
    int64_t p = 0;
    for (; p + DEPTHS <= s->depth; p += DEPTHS) add_depths(s, b, p, DEPTHS);
    for (; p < s->depth; p++) add_depths(s, b, p, 1);
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX2); }

const matmul_kernel matmul_kernel_avx2 = { .name = "avx2",
                                           .type = DTYPE_F32,
                                           .fill = 1,
                                           .rows = ROWS,
                                           .columns = COLUMNS,
                                           .available = available,
                                           .block = block,
                                           .stream = stream,
                                           .pack_a = matmul_pack_portable,
                                           .pack_b = matmul_pack_portable,
                                           .pack_apart = matmul_pack_apart_portable };
#endif
