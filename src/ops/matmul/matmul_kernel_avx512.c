/* Blocks of 14 x 32 sums: 28 of the 32 registers, two of them per row, one broadcast of a for two products.
 */
#include "base/instructions.h"
#include "ops/matmul/matmul_kernel.h"

#if defined(__x86_64__)
#include "ops/matmul/matmul_avx512.h"

enum { ROWS = 14, COLUMNS = 32, DEPTHS = 8 };

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

/* ---- few rows ---- */

/* One vector of sums goes on by `depths` rows of b from `row`. A mask that isn't known to be full costs a
 * third of the speed of memory: the processor reads less far ahead behind such loads. */
TARGET static inline __attribute__((always_inline)) void add_rows(const __m512 *a, const float *row,
                                                                  int64_t stride, float *sum,
                                                                  __mmask16 inside, const int depths,
                                                                  bool first, bool ask) {
    __m512 x = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(inside, sum);
#pragma GCC unroll 8
    for (int p = 0; p < depths; p++) {
        if (ask) _mm_prefetch((const char *)(row + (p + DEPTHS) * stride), _MM_HINT_T0);
        x = _mm512_fmadd_ps(a[p], _mm512_maskz_loadu_ps(inside, row + p * stride), x);
    }
    _mm512_mask_storeu_ps(sum, inside, x);
}

/* b's rows run along the sums: `depths` at a time, so that the sums are read and written once for them.
 */
TARGET static inline __attribute__((always_inline)) void
add_depths(const matmul_strip *s, const matmul_operand *b, int64_t depth, const int depths) {
    const float *a = s->a + depth * s->rows, *from = (const float *)b->data + depth * b->stride;
    for (int64_t i = 0; i < s->rows; i++) {
        __m512 ai[DEPTHS];
#pragma GCC unroll 8
        for (int p = 0; p < depths; p++) ai[p] = _mm512_set1_ps(a[p * s->rows + i]);
        float *sum = s->sum + i * s->columns;
        int64_t j = 0;
        for (; j + VECTOR <= s->columns; j += VECTOR)
            add_rows(ai, from + j, b->stride, sum + j, ALL_LANES, depths, depth == 0, i == 0);
        if (j < s->columns)
            add_rows(ai, from + j, b->stride, sum + j, first_lanes(s->columns - j), depths, depth == 0,
                     i == 0);
    }
}

/* The next `depths` floats of 16 rows become as many vectors of 16 rows each. */
TARGET static inline __attribute__((always_inline)) void read_turned(const float *const row[VECTOR],
                                                                     int64_t from, int64_t stride,
                                                                     __mmask16 inside, __m512 x[VECTOR]) {
#pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++) {
        x[i] = _mm512_maskz_loadu_ps(inside, row[i] + from);
        _mm_prefetch((const char *)(row[i] + VECTOR * stride + from), _MM_HINT_T0);
    }
    turn(x);
}

/* b's rows run along the depth: squares of 16 x 16 are turned in registers. Columns from j. */
TARGET static void sum_transposed(const matmul_strip *s, const matmul_operand *b, int64_t j) {
    __m512 sum[MATMUL_STREAM_ROWS] = { 0 }, x[VECTOR];
    int64_t lines = s->columns - j < VECTOR ? s->columns - j : VECTOR, p = 0;
    const float *row[VECTOR], *a = s->a;
    for (int i = 0; i < VECTOR; i++)
        row[i] = (const float *)b->data + (j + (i < lines ? i : lines - 1)) * b->stride;
    for (; p + VECTOR <= s->depth; p += VECTOR, a += VECTOR * s->rows) {
        read_turned(row, p, b->stride, ALL_LANES, x);
        for (int64_t i = 0; i < s->rows; i++)
#pragma GCC unroll 16
            for (int q = 0; q < VECTOR; q++)
                sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(a[q * s->rows + i]), x[q], sum[i]);
    }
    if (p < s->depth) read_turned(row, p, b->stride, first_lanes(s->depth - p), x);
    for (int64_t i = 0; i < s->rows; i++) {
        for (int q = 0; q < s->depth - p; q++)
            sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(a[q * s->rows + i]), x[q], sum[i]);
        _mm512_mask_storeu_ps(s->sum + i * s->columns + j, first_lanes(lines), sum[i]);
    }
}

TARGET static void stream(const matmul_strip *s, const matmul_operand *b) {
    if (!b->across) {
        for (int64_t j = 0; j < s->columns; j += VECTOR) sum_transposed(s, b, j);
        return;
    }
    int64_t p = 0;
    for (; p + DEPTHS <= s->depth; p += DEPTHS) add_depths(s, b, p, DEPTHS);
    for (; p < s->depth; p++) add_depths(s, b, p, 1);
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX512); }

const matmul_kernel matmul_kernel_avx512 = { .name = "avx512",
                                             .type = DTYPE_F32,
                                             .fill = 1,
                                             .rows = ROWS,
                                             .columns = COLUMNS,
                                             .available = available,
                                             .block = block,
                                             .stream = stream,
                                             .pack_a = matmul_pack_avx512,
                                             .pack_b = matmul_pack_avx512,
                                             .pack_apart = matmul_pack_apart_avx512 };
#endif
