/* Few rows of codes by stored codes as they lie: a template, which is included by the files of instruction
 * sets. They have
 *
 *   TARGET, INLINE, vec
 *   BYTES                 in a vector
 *   GROUP                 rows that are summed in registers at once
 *   OFFSET                what is added to each code of b: 128 where processors multiply unsigned ones
 *   zero(), load(p), store(p, x)   of 32-bit sums
 *   bytes_at(p)
 *   fours(p)              four codes, in every lane
 *   made(b)               codes of b as `dot` takes them
 *   dot(sum, b, a)        sum + products of codes, by fours
 *   weave(b), in_order(x) four rows become four vectors of fours; the order of sums that this leaves, undone
 *   in_all(x)             the sum of all lanes
 *   ask(p), ask_near(p)   for a line of memory: into the second cache, into the first */
#pragma once

enum { WORDS = BYTES / 4, UNIT = BYTES /* columns of four vectors of sums */, BAND = 32 };

/* ---- b's rows run along the columns ---- */

/* Depths from `from` on, `depths` of them, up to a multiple of 4 that a's codes are filled up to with zeros.
 * The first rows ask for what comes: a band further down, and the next columns of this one. */
TARGET static INLINE void add_fours(const matmul_int8_strip *s, int64_t row, int64_t from, int64_t depths,
                                    int64_t j, const int rows) {
    vec x[GROUP][4];
    int32_t *sum = s->sum + row * s->columns + j;
    const int8_t *a = s->a + row * s->stride_a + from;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) x[i][v] = from ? load(sum + i * s->columns + v * WORDS) : zero();
    for (int64_t d = 0; d < depths; d += 4) {
        vec b[4];
        const int8_t *at = s->b + (from + d) * s->stride + j;
        int64_t last = s->depth - 1 - from - d;
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            b[k] = bytes_at(at + (k < last ? k : last) * s->stride);
            if (row == 0) ask((const char *)at + (k + s->ahead) * s->stride);
            if (row == 0) ask_near((const char *)at + UNIT + k * s->stride);
        }
        weave(b);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) b[v] = made(b[v]);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            vec ai = fours(a + i * s->stride_a + d);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) x[i][v] = dot(x[i][v], b[v], ai);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) store(sum + i * s->columns + v * WORDS, x[i][v]);
}

TARGET static INLINE void add_band(const matmul_int8_strip *s, int64_t from, int64_t depths, int64_t row,
                                   const int rows) {
    for (int64_t j = 0; j < s->columns; j += UNIT) add_fours(s, row, from, depths, j, rows);
}

TARGET static void sum_across(const matmul_int8_strip *s) {
    for (int64_t from = 0; from < s->depth; from += BAND) {
        int64_t depths = s->depth - from < BAND ? s->depth - from : BAND;
        for (int64_t row = 0; row < s->rows; row += GROUP)
            switch (s->rows - row < GROUP ? s->rows - row : GROUP) {
            case 1: add_band(s, from, depths, row, 1); break;
            case 2: add_band(s, from, depths, row, 2); break;
            case 3: add_band(s, from, depths, row, GROUP < 3 ? 1 : 3); break;
            default: add_band(s, from, depths, row, GROUP); break;
            }
    }
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->columns; j += UNIT) {
            int32_t *sum = s->sum + i * s->columns + j;
            vec x[4];
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) x[v] = load(sum + v * WORDS);
            in_order(x);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) store(sum + v * WORDS, x[v]);
        }
}

/* ---- b's rows run along the depth ---- */

enum { LINES = 4 };

TARGET static INLINE void sum_lines(const matmul_int8_strip *s, int64_t j, int64_t row, const int rows) {
    vec x[GROUP][LINES];
    const int8_t *b = s->b + j * s->stride, *a = s->a + row * s->stride_a;
    int64_t whole = s->depth / BYTES * BYTES;
    const char *ahead = (const char *)b + LINES * s->stride * (s->ahead_lines / LINES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int l = 0; l < LINES; l++) x[i][l] = zero();
    for (int64_t d = 0; d < whole; d += BYTES, ahead += LINES * BYTES) {
#pragma GCC unroll 4
        for (int l = 0; l < LINES; l++) {
            vec bl = made(bytes_at(b + l * s->stride + d));
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) x[i][l] = dot(x[i][l], bl, bytes_at(a + i * s->stride_a + d));
        }
#pragma GCC unroll 4
        for (int k = 0; k < LINES * BYTES; k += 64) ask(ahead + k);
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int l = 0; l < LINES; l++) {
            int32_t sum = in_all(x[i][l]);
            for (int64_t d = whole; d < s->depth; d++)
                sum += (b[l * s->stride + d] + OFFSET) * a[i * s->stride_a + d];
            s->sum[(row + i) * s->columns + j + l] = sum;
        }
}

TARGET static void sum_along(const matmul_int8_strip *s) {
    for (int64_t j = 0; j < s->columns; j += LINES)
        for (int64_t row = 0; row < s->rows; row += GROUP)
            switch (s->rows - row < GROUP ? s->rows - row : GROUP) {
            case 1: sum_lines(s, j, row, 1); break;
            case 2: sum_lines(s, j, row, 2); break;
            case 3: sum_lines(s, j, row, GROUP < 3 ? 1 : 3); break;
            default: sum_lines(s, j, row, GROUP); break;
            }
}

/* What OFFSET has added goes. */
TARGET static void stream(const matmul_int8_strip *s) {
    (s->across ? sum_across : sum_along)(s);
    for (int64_t i = 0; OFFSET != 0 && i < s->rows; i++) {
        int32_t more = OFFSET * s->sums_of_a[i];
        int32_t *sum = s->sum + i * s->columns;
        for (int64_t j = 0; j < s->columns; j++) sum[j] -= more;
    }
}
