/* Panels of bf16 in pairs by whole vectors. A pair is a word: squares of 16 x 16 words are turned as those of
 * f32 are, and two depths side by side are woven into one row of words. Nothing is widened. */
#include "ops/matmul/matmul_kernel.h"

#if defined(__x86_64__)
#include "ops/matmul/matmul_avx512.h"

enum { FILL = MATMUL_PAIRS_FILL, PAIR = 2, STEP = PAIR * VECTOR /* depths in a vector of pairs */ };

TARGET static inline __attribute__((always_inline)) int64_t least_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The first of 16 pairs along the depth, `depths` numbers; the rest is 0. */
TARGET static inline __attribute__((always_inline)) __m512 pairs_along(const uint16_t *line, int64_t depths) {
    __mmask32 inside = depths >= STEP ? 0xffffffffu : depths > 0 ? (1u << depths) - 1 : 0;
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(inside, line));
}

/* Pairs of the first lines from `at` on, which lie side by side; at + stride is the next depth. */
TARGET static inline __attribute__((always_inline)) __m512 pairs_across(const uint16_t *at, int64_t stride,
                                                                        int64_t lines, int64_t depths) {
    __mmask16 inside = first_lanes(lines);
    __m256i low = _mm256_maskz_loadu_epi16(depths > 0 ? inside : 0, at);
    __m256i high = _mm256_maskz_loadu_epi16(depths > 1 ? inside : 0, at + stride);
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
}

/* ---- [pair][line] ---- */

TARGET static inline __attribute__((always_inline)) void panel_across(const matmul_operand *o, int64_t lines,
                                                                      int64_t depth, int64_t width,
                                                                      int64_t filled, float *to) {
    const uint16_t *at = o->data;
    for (int64_t p = 0; p < filled; p += PAIR, at += PAIR * o->stride, to += width)
        for (int64_t line = 0; line < width; line += VECTOR)
            _mm512_mask_storeu_ps(
                to + line, first_lanes(width - line),
                pairs_across(at + line, o->stride, lines > line ? lines - line : 0, depth - p));
}

TARGET static inline __attribute__((always_inline)) void
panel_along(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, int64_t filled, float *to) {
    for (int64_t p = 0; p < filled; p += STEP)
        for (int64_t line = 0; line < width; line += VECTOR) {
            __m512 x[VECTOR];
            __mmask16 wanted = first_lanes(width - line);
            int64_t pairs = least_of(VECTOR, (filled - p) / PAIR);
            float *row = to + p / PAIR * width + line;
#pragma GCC unroll 16
            for (int i = 0; i < VECTOR; i++)
                x[i] = pairs_along((const uint16_t *)o->data + least_of(line + i, lines - 1) * o->stride + p,
                                   depth - p);
            turn(x);
#pragma GCC unroll 16
            for (int q = 0; q < VECTOR; q++)
                if (q < pairs) _mm512_mask_storeu_ps(row + q * width, wanted, x[q]);
        }
}

TARGET static inline __attribute__((always_inline)) void pack_to(const matmul_operand *o, int64_t lines,
                                                                 int64_t depth, const int64_t width,
                                                                 int64_t filled, float *to) {
    for (int64_t line = 0; line < lines; line += width, to += filled / PAIR * width) {
        matmul_operand at = matmul_operand_at(o, line, 0);
        if (o->across)
            panel_across(&at, lines - line, depth, width, filled, to);
        else
            panel_along(&at, lines - line, depth, width, filled, to);
    }
}

/* The widths of the micro-kernels as constants. */
TARGET static void pack_filled(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                               int64_t filled, float *to) {
    switch (width) {
    case 14: pack_to(o, lines, depth, 14, filled, to); break;
    case 32: pack_to(o, lines, depth, 32, filled, to); break;
    default: pack_to(o, lines, depth, width, filled, to);
    }
}

void matmul_pack_pairs_avx512(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                              void *packed) {
    pack_filled(o, lines, depth, width, (depth + 1) / PAIR * PAIR, packed);
}

void matmul_pack_pairs_filled_avx512(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                                     void *packed) {
    pack_filled(o, lines, depth, width, (depth + FILL - 1) / FILL * FILL, packed);
}

/* ---- [line][pair], FILL depths at a time ---- */

TARGET static inline __attribute__((always_inline)) void rows_along(const matmul_operand *o, int64_t lines,
                                                                    int64_t depth, int64_t width, float *to) {
    for (int64_t p = 0; p < depth; p += FILL)
        for (int64_t line = 0; line < width; line++, to += VECTOR)
            _mm512_storeu_ps(
                to, pairs_along((const uint16_t *)o->data + least_of(line, lines - 1) * o->stride + p,
                                depth - p));
}

TARGET static inline __attribute__((always_inline)) void
rows_across(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, float *to) {
    for (int64_t p = 0; p < depth; p += FILL)
        for (int64_t line = 0; line < width; line += VECTOR) {
            __m512 x[VECTOR];
            const uint16_t *at = (const uint16_t *)o->data + p * o->stride + line;
#pragma GCC unroll 16
            for (int q = 0; q < VECTOR; q++)
                x[q] = pairs_across(at + q * PAIR * o->stride, o->stride, lines > line ? lines - line : 0,
                                    depth - p - q * PAIR);
            turn(x);
#pragma GCC unroll 16
            for (int i = 0; i < VECTOR; i++, to += VECTOR) _mm512_storeu_ps(to, x[i]);
        }
}

TARGET void matmul_pack_rows_avx512(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                                    void *packed) {
    float *to = packed;
    int64_t words = (depth + FILL - 1) / FILL * VECTOR * width;
    for (int64_t line = 0; line < lines; line += width, to += words) {
        matmul_operand at = matmul_operand_at(o, line, 0);
        if (o->across)
            rows_across(&at, lines - line, depth, width, to);
        else
            rows_along(&at, lines - line, depth, width, to);
    }
}
#endif
