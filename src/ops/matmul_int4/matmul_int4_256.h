/* Panels in vectors of 32 bytes, as two halves of their outputs: a template, which is included by the files
 * of instruction sets. What includes it has TARGET, and total(low, high, a, start), the sums of a group of
 * eight outputs: start plus the products of their words with the codes at a. */
#pragma once

enum { HALF_PANEL = CODES4_PANEL / 2, AT_ONCE = 4 /* rows: sixteen registers hold no more */ };

/* Group g of half a panel (0 and 1 are of the first one), of some rows from `row` on, added to x. */
TARGET static INLINE void add_group(const matmul_int4_block *s, int64_t g, int64_t half, int64_t row,
                                    const int rows, __m256 *x) {
    int64_t place = half / 2 * s->groups + g, lane = half % 2 * HALF_PANEL;
    const uint8_t *codes = s->codes + place * CODES4_PANEL * CODES4_BYTES + 4 * lane;
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i low[CODES4_WORDS], high[CODES4_WORDS];
#pragma GCC unroll 4
    for (int w = 0; w < CODES4_WORDS; w++) {
        __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)(codes + 4 * CODES4_PANEL * w));
        low[w] = _mm256_and_si256(both, mask);
        high[w] = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
    }
    __m256 scales = _mm256_cvtph_ps(
        _mm_loadu_si128((const __m128i *)(const void *)(s->scales + place * CODES4_PANEL + lane)));
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        int64_t at = (row + i) * s->groups + g;
        __m256i sum = total(low, high, s->a + at * CODES4_GROUP, s->starts[at]);
        __m256 by = _mm256_mul_ps(_mm256_set1_ps(s->scales_a[at]), scales);
        x[i] = _mm256_add_ps(x[i], _mm256_mul_ps(_mm256_cvtepi32_ps(sum), by));
    }
}

TARGET static INLINE void multiply(const matmul_int4_block *s, int64_t half, int64_t row, const int rows) {
    for (int64_t from = 0; from < s->groups; from += MATMUL_INT4_SLICE) {
        int64_t to = from + MATMUL_INT4_SLICE < s->groups ? from + MATMUL_INT4_SLICE : s->groups;
        __m256 x[AT_ONCE];
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) x[i] = _mm256_setzero_ps();
        for (int64_t g = from; g < to; g++) add_group(s, g, half, row, rows, x);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            float *sum = s->sum + (row + i) * s->stride + half * HALF_PANEL;
            __m256 before = from ? _mm256_loadu_ps(sum) : _mm256_setzero_ps();
            _mm256_storeu_ps(sum, _mm256_add_ps(before, x[i]));
        }
    }
}

TARGET static void block(const matmul_int4_block *s) {
    for (int64_t half = 0; half < 2 * s->panels; half++)
        for (int64_t row = 0; row < s->rows; row += AT_ONCE) switch (s->rows - row) {
            case 1: multiply(s, half, row, 1); break;
            case 2: multiply(s, half, row, 2); break;
            case 3: multiply(s, half, row, 3); break;
            default: multiply(s, half, row, AT_ONCE); break;
            }
}
