/* Panels by whole vectors: each row of a panel is one or two moves. A row that is no whole number of vectors
 * is written with what lies beside it, which the next row then writes over; only the last row of a panel has
 * to look. */
#include "ops/matmul/matmul_kernel.h"

#if defined(__x86_64__)
#include "ops/matmul/matmul_avx512.h"

enum { RUNS = 8, NARROW = VECTOR / 2 };

/* ---- lines side by side ---- */

TARGET static inline __attribute__((always_inline)) void copy_run(const void *data, int64_t from,
                                                                  int64_t lines, bool last,
                                                                  const int64_t width, const dtype type,
                                                                  float *to) {
#pragma GCC unroll 2
    for (int64_t line = 0; line < width; line += VECTOR) {
        int64_t left = lines - line;
        __m512 x = fetch(data, from + line, left > 0 ? first_lanes(left) : 0, type);
        if (width < NARROW || (last && width % VECTOR))
            _mm512_mask_storeu_ps(to + line, first_lanes(width - line), x);
        else
            _mm512_storeu_ps(to + line, x);
    }
}

/* Some depths through all panels, then the next ones: what is read lies together. */
TARGET static inline __attribute__((always_inline)) void copy_runs(const matmul_operand *o, int64_t lines,
                                                                   int64_t depth, const int64_t width,
                                                                   const dtype type, float *packed) {
    for (int64_t first = 0; first < depth; first += RUNS) {
        int64_t end = first + RUNS < depth ? first + RUNS : depth;
        for (int64_t line = 0; line < lines; line += width) {
            int64_t from = first * o->stride + line;
            float *to = packed + line * depth + first * width;
            int64_t count = lines - line < width ? lines - line : width;
            for (int64_t p = first; p < end; p++, from += o->stride, to += width)
                copy_run(o->data, from, count, p == depth - 1, width, type, to);
        }
    }
}

/* The widths of the micro-kernel as constants. */
TARGET static inline __attribute__((always_inline)) void pack_across(const matmul_operand *o, int64_t lines,
                                                                     int64_t depth, int64_t width,
                                                                     const dtype type, float *packed) {
    switch (width) {
    case 14: copy_runs(o, lines, depth, 14, type, packed); break;
    case 32: copy_runs(o, lines, depth, 32, type, packed); break;
    default: copy_runs(o, lines, depth, width, type, packed);
    }
}

/* ---- lines along the depth ---- */

/* One square into a panel, from place `from` of the rows. What lies beyond a narrow one's lines is written
 * over by the next row of the panel, so only the last square has to look. */
TARGET static inline __attribute__((always_inline)) void pack_square(const void *const row[VECTOR],
                                                                     int64_t from, int64_t depths,
                                                                     int64_t lines, bool exact, int64_t width,
                                                                     const dtype type, float *panel) {
    __m512 x[VECTOR];
    __mmask16 inside = first_lanes(depths), wanted = first_lanes(lines);
#pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++) x[i] = fetch(row[i], from, exact ? inside : 0xffff, type);
    turn(x);
#pragma GCC unroll 16
    for (int q = 0; q < VECTOR; q++) {
        if (!exact)
            _mm512_storeu_ps(panel + q * width, x[q]);
        else if (q < depths)
            _mm512_mask_storeu_ps(panel + q * width, wanted, x[q]);
    }
}

/* The squares that lie side by side at one depth, so that the panel is written in order. Only where there is
 * one of them may it write beyond the panel's lines: else the next row's first lines have been written
 * already. */
TARGET static inline __attribute__((always_inline)) void
pack_squares(const void *const *row, int64_t depth, int64_t width, const dtype type, float *panel) {
    for (int64_t p = 0; p < depth; p += VECTOR, panel += VECTOR * width)
        for (int64_t line = 0; line < width; line += VECTOR)
            if (p + VECTOR < depth && width >= NARROW && (width < VECTOR || line + VECTOR <= width))
                pack_square(row + line, p, VECTOR, VECTOR, false, width, type, panel + line);
            else
                pack_square(row + line, p, depth - p < VECTOR ? depth - p : VECTOR, width - line, true, width,
                            type, panel + line);
}

/* The last line stands for those that a panel has more than there are. */
TARGET static inline __attribute__((always_inline)) void pack_along(const matmul_operand *o, int64_t lines,
                                                                    int64_t depth, int64_t width,
                                                                    const dtype type, float *panel) {
    const void *row[MATMUL_MAX_COLUMNS];
    for (int64_t i = 0; i < MATMUL_MAX_COLUMNS; i++)
        row[i] = matmul_operand_at(o, i < lines ? i : lines - 1, 0).data;
    pack_squares(row, depth, width, type, panel);
}

/* ---- the types as constants ---- */

TARGET static inline __attribute__((always_inline)) void
pack(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, const dtype type, float *packed) {
    if (o->across) {
        pack_across(o, lines, depth, width, type, packed);
        return;
    }
    for (int64_t line = 0; line < lines; line += width, packed += depth * width) {
        matmul_operand at = matmul_operand_at(o, line, 0);
        pack_along(&at, lines - line < width ? lines - line : width, depth, width, type, packed);
    }
}

TARGET static void pack_f32(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                            float *packed) {
    pack(o, lines, depth, width, DTYPE_F32, packed);
}

TARGET static void pack_f16(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                            float *packed) {
    pack(o, lines, depth, width, DTYPE_F16, packed);
}

TARGET static void pack_bf16(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width,
                             float *packed) {
    pack(o, lines, depth, width, DTYPE_BF16, packed);
}

void matmul_pack_avx512(const matmul_operand *o, int64_t lines, int64_t depth, int64_t width, void *packed) {
    switch (o->type) {
    case DTYPE_F16: pack_f16(o, lines, depth, width, packed); break;
    case DTYPE_BF16: pack_bf16(o, lines, depth, width, packed); break;
    default: pack_f32(o, lines, depth, width, packed);
    }
}

TARGET void matmul_pack_apart_avx512(const void *const *row, int64_t lines, int64_t depth, int64_t width,
                                     dtype type, float *panel) {
    const void *at[MATMUL_MAX_COLUMNS];
    for (int64_t i = 0; i < MATMUL_MAX_COLUMNS; i++) at[i] = row[i < lines ? i : lines - 1];
    switch (type) {
    case DTYPE_F16: pack_squares(at, depth, width, DTYPE_F16, panel); break;
    case DTYPE_BF16: pack_squares(at, depth, width, DTYPE_BF16, panel); break;
    default: pack_squares(at, depth, width, DTYPE_F32, panel);
    }
}
#endif
