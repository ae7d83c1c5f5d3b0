/* Few rows by b as it lies, in vectors of f32: a template, which is included by the files of instruction
 * sets. They have
 *
 *   TARGET, INLINE, vec
 *   LANES                       numbers in a vector; UNIT is twice as many
 *   STEP                        depths that one `fused` takes: 2 where it adds products in pairs
 *   GROUP                       rows that are summed in registers at once, 4 or 8
 *   WIDE_1, WIDE_2, WIDE_4      units beside each other for 1, for 2, and for 3 or 4 rows
 *   zero(), load(p), load_any(p), store(p, x), spread(p)
 *   add(a, b), times(a, b), fused(a, b, c)
 *   read_unit(u, j, type, x)    numbers of one depth in UNIT columns, in an order of its own,
 *   in_order(x, type)           which this undoes
 *   read_lines(row, at, bytes, x)   the next bytes of LANES lines, turned: x[q] has word q of each line
 *   number_in(word, e, type)    number e of the words, as far as it needs no scale
 *   scales_of_lines(o, line, depth)
 *   ask(p)                      for a line of memory, into the second cache */
#pragma once

#include <stddef.h>

#include "ops/nf4.h"

enum { UNIT = 2 * LANES };

/* ---- b's rows run along the columns ---- */

/* Depths that are walked at a time, so that sums are loaded and stored once for them. */
enum { BAND = 8 };

/* Some depths of a slice, from the strip's first column on. */
typedef struct {
    const char *row, *ask; /* of the first depth; what is asked for instead when it is read */
    int64_t stride;        /* bytes */
    int64_t depth, depths;
    const float *a;
    bool first, asks; /* first: in its slice */
    int64_t y;        /* the first row of y */
} band;

/* `rows` rows from k->y on, `units` units from column j on. */
TARGET static INLINE void add_part(const matmul_strip *s, const band *k, int64_t j, const dtype type,
                                   const int rows, const int units) {
    enum { MOST = 8 };
    vec x[8][MOST];
    float *work = s->work + k->y * s->columns + j;
    const char *at = k->row + matmul_stored_bytes(type, j), *ahead = k->ask + matmul_stored_bytes(type, j);
    const float *a = k->a + k->y;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < 2 * units; v++)
            x[i][v] = k->first ? zero() : load(work + i * s->columns + v * LANES);
    for (int64_t p = 0; p < k->depths;
         p += STEP, at += STEP * k->stride, ahead += STEP * k->stride, a += s->rows) {
        vec b[MOST];
        matmul_unit u = { at, k->stride, s->b, s->line + j, k->depth + p, k->depths - p };
#pragma GCC unroll 4
        for (int v = 0; v < units; v++) read_unit(&u, v * UNIT, type, &b[2 * v]);
        if (k->asks)
#pragma GCC unroll 8
            for (int64_t line = 0; line < matmul_stored_bytes(type, units * UNIT); line += 64)
#pragma GCC unroll 2
                for (int step = 0; step < STEP; step++) ask(ahead + line + step * k->stride);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            vec ai = spread(a + i);
#pragma GCC unroll 8
            for (int v = 0; v < 2 * units; v++) x[i][v] = fused(ai, b[v], x[i][v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < 2 * units; v++) store(work + i * s->columns + v * LANES, x[i][v]);
}

TARGET static INLINE void add_columns(const matmul_strip *s, const band *k, const dtype type, const int rows,
                                      const int units) {
    int64_t j = 0;
    for (; j + units * UNIT <= s->columns; j += units * UNIT) add_part(s, k, j, type, rows, units);
    if (units > 1)
        for (; j < s->columns; j += UNIT) add_part(s, k, j, type, rows, 1);
}

TARGET static INLINE void add_band(const matmul_strip *s, band *k, const dtype type) {
    for (k->y = 0; k->y < s->rows; k->y += GROUP) switch (s->rows - k->y < GROUP ? s->rows - k->y : GROUP) {
        case 1: add_columns(s, k, type, 1, WIDE_1); break;
        case 2: add_columns(s, k, type, 2, WIDE_2); break;
        case 3: add_columns(s, k, type, 3, WIDE_4); break;
        case 4: add_columns(s, k, type, 4, WIDE_4); break;
        case 6: add_columns(s, k, type, GROUP < 6 ? 1 : 6, 1); break;
        default: add_columns(s, k, type, GROUP < 8 ? 1 : 8, 1); break;
        }
}

/* The slice's sums, which are in `work`, to those before. */
TARGET static INLINE void add_slice(const matmul_strip *s, const dtype type, bool first) {
    for (int64_t i = 0; i < s->rows * s->columns; i += UNIT) {
        vec x[2] = { load(s->work + i), load(s->work + i + LANES) };
        in_order(x, type);
        for (int v = 0; v < 2; v++) {
            vec before = first ? zero() : load(s->sum + i + v * LANES);
            store(s->sum + i + v * LANES, add(before, x[v]));
        }
    }
}

TARGET static INLINE void sum_across(const matmul_strip *s, const dtype type) {
    const char *b = (const char *)s->b->data + matmul_stored_bytes(type, s->line);
    int64_t most = s->sequential ? STEP : BAND;
    band k = { .stride = matmul_stored_bytes(type, s->b->stride), .asks = !s->sequential };
    for (int64_t slice = 0; slice < s->depth; slice += MATMUL_DEPTH) {
        int64_t end = slice + MATMUL_DEPTH < s->depth ? slice + MATMUL_DEPTH : s->depth;
        for (k.depth = slice; k.depth < end; k.depth += most) {
            int64_t next = k.depth + most;
            k.depths = end - k.depth < most ? end - k.depth : most;
            k.row = b + k.depth * k.stride, k.first = k.depth == slice && !s->begun;
            k.ask = next < s->depth ? b + next * k.stride
                    : s->after      ? (const char *)s->after + (next - s->depth) * k.stride
                                    : k.row;
            k.a = (const float *)s->a + k.depth / STEP * s->rows;
            add_band(s, &k, type);
        }
        if (!s->unfinished) add_slice(s, type, slice == 0);
    }
}

/* ---- b's rows run along the depth ---- */

enum { WORD = 4 };

/* Depths in a word. */
TARGET static INLINE int64_t in_word(const dtype type) {
    return type == DTYPE_U8 ? 8 : type == DTYPE_I8 ? 4 : dtype_is_half(type) ? 2 : 1;
}

/* LANES lines of b from one on. */
typedef struct {
    const matmul_operand *o;
    const char *row[LANES];
    int64_t line;
    vec scales; /* of the lines, where these have any */
} lines;

/* Of LANES words of some lines. */
typedef struct {
    int64_t depth, count; /* of the first; depths in all */
    const float *a;
    int64_t width; /* of a */
} square;

/* Their numbers are multiplied and added. */
TARGET static INLINE void add_words(const lines *l, const vec word[LANES], const square *k, const dtype type,
                                    const int rows, vec *sum) {
    const int numbers = (int)in_word(type) / STEP;
    vec scales = l->scales;
    const int64_t count = (k->count + STEP - 1) / STEP, width = k->width, depth = k->depth;
    const float *a = k->a;
    bool unrolled = count == LANES * numbers && !(type == DTYPE_I8 || type == DTYPE_U8);
    if (unrolled) {
#pragma GCC unroll 16
        for (int q = 0; q < LANES; q++)
#pragma GCC unroll 2
            for (int e = 0; e < numbers; e++) {
                vec x = number_in(word[q], e, type);
#pragma GCC unroll 8
                for (int i = 0; i < rows; i++)
                    sum[i] = fused(spread(a + (q * numbers + e) * width + i), x, sum[i]);
            }
        return;
    }
    float room[LANES * LANES] __attribute__((aligned(64)));
#pragma GCC unroll 16
    for (int q = 0; q < LANES; q++) store(room + q * LANES, word[q]);
    for (int64_t q = 0; q * numbers < count; q++) {
        if (type == DTYPE_U8 && q * numbers % NF4_BLOCK == 0)
            scales = scales_of_lines(l->o, l->line, depth + q * numbers);
        vec words = load(room + q * LANES);
#pragma GCC unroll 8
        for (int e = 0; e < numbers; e++) {
            if (numbers > 1 && q * numbers + e >= count) break;
            vec x = number_in(words, e, type);
            if (type == DTYPE_I8 && !l->o->by_rows) scales = spread(l->o->scales + depth + q * numbers + e);
            if (type == DTYPE_I8 || type == DTYPE_U8) x = times(x, scales);
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++)
                sum[i] = fused(spread(a + (q * numbers + e) * width + i), x, sum[i]);
        }
    }
}

/* LANES words, which are codes, of each line of all groups, for one row. The sums of one group wait for each
 * other, number after number; so groups take turns. `a` is not of pairs. */
TARGET static INLINE void add_codes(const lines *l, const int groups, const float *words, const square *k,
                                    const dtype type, vec sum[2][8]) {
    enum { WORDS_OF_BLOCK = NF4_BLOCK / 8 };
    const int numbers = type == DTYPE_U8 ? 8 : 4;
    const float *a = k->a;
    vec scales[2] = { l[0].scales, l[groups - 1].scales };
    for (int64_t q = 0; q < LANES; q++, a += numbers * k->width) {
        vec word[2];
#pragma GCC unroll 2
        for (int g = 0; g < groups; g++) {
            word[g] = load(words + (g * LANES + q) * LANES);
            if (type == DTYPE_U8 && q % WORDS_OF_BLOCK == 0)
                scales[g] = scales_of_lines(l[g].o, l[g].line, k->depth + q * numbers);
        }
#pragma GCC unroll 8
        for (int e = 0; e < numbers; e++)
#pragma GCC unroll 2
            for (int g = 0; g < groups; g++) {
                vec by = scales[g];
                if (type == DTYPE_I8 && !l[g].o->by_rows)
                    by = spread(l[g].o->scales + k->depth + q * numbers + e);
                vec x = times(number_in(word[g], e, type), by);
                sum[g][0] = fused(spread(a + e * k->width), x, sum[g][0]);
            }
    }
}

TARGET static INLINE void open_lines(lines *l, const matmul_strip *s, int64_t line, const dtype type) {
    l->o = s->b, l->line = line;
    for (int i = 0; i < LANES; i++)
        l->row[i] = (const char *)s->b->data + matmul_stored_bytes(type, (line + i) * s->b->stride);
    l->scales = type == DTYPE_I8 && s->b->by_rows ? load_any(s->b->scales + line) : zero();
}

/* Where sums go, and what is asked for meanwhile, as much as is read. */
typedef struct {
    int64_t row, column;
    const char *ahead;
} corner;

/* `groups` times LANES lines; beside each other, so that one waits for its sums while the other goes on. */
TARGET static INLINE void sum_lines(const matmul_strip *s, corner k, const dtype type, const int rows,
                                    const int groups) {
    const int64_t all = LANES * in_word(type);
    lines l[2];
    vec total[2][8];
    for (int g = 0; g < groups; g++) open_lines(&l[g], s, s->line + k.column + g * LANES, type);
#pragma GCC unroll 2
    for (int g = 0; g < groups; g++)
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) total[g][i] = zero();
    for (int64_t slice = 0; slice < s->depth; slice += MATMUL_DEPTH) {
        int64_t end = slice + MATMUL_DEPTH < s->depth ? slice + MATMUL_DEPTH : s->depth;
        vec sum[2][8];
#pragma GCC unroll 2
        for (int g = 0; g < groups; g++)
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) sum[g][i] = zero();
        for (int64_t p = slice; p < end; p += all) {
            square part = { .depth = p,
                            .count = end - p < all ? end - p : all,
                            .a = (const float *)s->a + p / STEP * s->rows + k.row,
                            .width = s->rows };
            bool whole = part.count == all, codes = type == DTYPE_I8 || type == DTYPE_U8;
            bool apart = codes && whole && STEP == 1 && rows == 1;
            float room[2 * LANES * LANES] __attribute__((aligned(64)));
#pragma GCC unroll 2
            for (int g = 0; g < groups; g++) {
                vec word[LANES];
                read_lines(l[g].row, matmul_stored_bytes(type, p),
                           whole ? LANES * WORD : matmul_stored_bytes(type, part.count), word);
                for (int64_t i = 0; i < LANES * LANES * WORD; i += 64) ask(k.ahead + i);
                k.ahead += LANES * LANES * WORD;
                if (whole) part.count = all; /* a constant */
                if (!apart)
                    add_words(&l[g], word, &part, type, rows, sum[g]);
                else
#pragma GCC unroll 16
                    for (int q = 0; q < LANES; q++) store(room + (g * LANES + q) * LANES, word[q]);
            }
            if (apart) add_codes(l, groups, room, &part, type, sum);
        }
#pragma GCC unroll 2
        for (int g = 0; g < groups; g++)
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) total[g][i] = add(total[g][i], sum[g][i]);
    }
#pragma GCC unroll 2
    for (int g = 0; g < groups; g++)
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
            store(s->sum + (k.row + i) * s->columns + k.column + g * LANES, total[g][i]);
}

/* UNIT lines at once for one or two rows, which have few sums that could go on beside each other. */
TARGET static INLINE void sum_along(const matmul_strip *s, const dtype type) {
    const int64_t each = s->rows > 2 ? LANES : UNIT, bytes = matmul_stored_bytes(type, s->b->stride * each);
    const char *here = (const char *)s->b->data + matmul_stored_bytes(type, s->line * s->b->stride);
    for (int64_t j = 0; j < s->columns; j += each, here += bytes) {
        const char *next = j + each < s->columns ? here + bytes : s->after ? s->after : here;
        for (int64_t row = 0; row < s->rows; row += GROUP) {
            corner k = { row, j, row ? here : next };
            switch (s->rows - row < GROUP ? s->rows - row : GROUP) {
            case 1: sum_lines(s, k, type, 1, 2); break;
            case 2:
                if (s->rows > 2)
                    sum_lines(s, k, type, 2, 1); /* the last two of six */
                else
                    sum_lines(s, k, type, 2, 2);
                break;
            case 3: sum_lines(s, k, type, 3, 1); break;
            case 4: sum_lines(s, k, type, 4, 1); break;
            case 6: sum_lines(s, k, type, GROUP < 6 ? 1 : 6, 1); break;
            default: sum_lines(s, k, type, GROUP < 8 ? 1 : 8, 1); break;
            }
        }
    }
}

#define STREAM(name, type)                                                                                   \
    TARGET static void name(const matmul_strip *s) {                                                         \
        if (s->b->across)                                                                                    \
            sum_across(s, type);                                                                             \
        else                                                                                                 \
            sum_along(s, type);                                                                              \
    }
