/* Operands become panels of codes: floats by finding the scale of each line and rounding, codes as they are.
 */
#include <string.h>

#include "base/least.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"

static int64_t align(int64_t n) { return (n + 63) & ~(int64_t)63; }

/* ---- rows of an operand in f32 ---- */

VECTOR_CLONES static void multiply_each(const float *restrict x, const float *restrict by, int64_t n,
                                        float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * by[i];
}

/* n numbers from `place` of the data on, where they lie or, if they are not what is wanted, in `own`. */
static const float *row_at(const matmul_int8_operand *o, int64_t place, int64_t n, float *own) {
    const float *x = (const float *)o->data + place;
    if (dtype_is_half(o->type)) {
        half_widen(o->type, (const uint16_t *)o->data + place, n, own);
        x = own;
    }
    if (!o->fold) return x;
    if (x == own)
        for (int64_t i = 0; i < n; i++) own[i] *= o->fold[i];
    else
        multiply_each(x, o->fold, n, own);
    return own;
}

/* ---- codes that follow each other along the sum: lines become columns of words ---- */

enum { SOME_FOURS = 16 }; /* a cache line of each at a time, and what a row of a tile has */

static void clear(const matmul_int8_panels *to, int64_t lines, int64_t depth) {
    if (lines < to->width || to->fours > divide_up(depth, MATMUL_INT8_FOUR))
        memset(to->words, 0, (size_t)(to->fours * to->width) * sizeof *to->words);
}

/* Where four `f` of a line is, from one that begins SOME_FOURS of them. */
static uint32_t *word_at(const matmul_int8_panels *to, int64_t f, int64_t line) {
    if (!to->arranged) return to->words + f * to->width + line;
    return to->words + (f / SOME_FOURS * to->width + line) * SOME_FOURS + f % SOME_FOURS;
}

static void weave_lane(const int8_t *codes, int64_t line, int64_t from, int64_t fours,
                       const matmul_int8_panels *to) {
    if (to->arranged) {
        uint32_t *words = word_at(to, from, line);
        const int8_t *at = codes + from * MATMUL_INT8_FOUR;
        if (fours == SOME_FOURS) /* a constant, which is a move or two */
            memcpy(words, at, SOME_FOURS * sizeof *words);
        else
            memcpy(words, at, (size_t)fours * sizeof *words);
        return;
    }
    uint32_t *words = to->words + from * to->width + line;
    for (int64_t f = 0; f < fours; f++) {
        uint32_t four;
        memcpy(&four, codes + (from + f) * MATMUL_INT8_FOUR, sizeof four);
        words[f * to->width] = four ^ to->flip;
    }
}

static void weave(const int8_t *codes, int64_t stride, int64_t lines, int64_t depth,
                  const matmul_int8_panels *to) {
    int64_t whole = depth / MATMUL_INT8_FOUR, rest = depth - whole * MATMUL_INT8_FOUR;
    clear(to, lines, depth);
    for (int64_t from = 0; from < whole; from += SOME_FOURS)
        for (int64_t line = 0; line < lines; line++)
            weave_lane(codes + line * stride, line, from, least(SOME_FOURS, whole - from), to);
    for (int64_t line = 0; line < lines && rest; line++) {
        int8_t last[MATMUL_INT8_FOUR] = { 0 };
        uint32_t four;
        memcpy(last, codes + line * stride + whole * MATMUL_INT8_FOUR, (size_t)rest);
        memcpy(&four, last, sizeof four);
        *word_at(to, whole, line) = four ^ to->flip;
    }
}

/* Modulo 2^32, as the kernels' sums of shifted codes are: only the whole has to fit. */
VECTOR_CLONES static int32_t start_of(const int8_t *codes, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += codes[i]; /* at most MATMUL_INT8_LONGEST of them */
    return (int32_t)(0u - 128u * (uint32_t)sum);
}

static void set_starts(const int8_t *codes, int64_t stride, int64_t lines, int64_t depth,
                       const matmul_int8_panels *to) {
    for (int64_t line = 0; to->starts && line < to->width; line++)
        to->starts[line] = line < lines ? start_of(codes + line * stride, depth) : 0;
}

uint64_t matmul_int8_room(int64_t width, int64_t depth) {
    return (uint64_t)(width * align(depth) + align(depth * (int64_t)sizeof(float)));
}

void matmul_int8_code_lines(const matmul_int8_operand *o, int64_t first, int64_t lines, int64_t depth,
                            const matmul_int8_panels *to, void *room) {
    int8_t *codes = room;
    int64_t stride = align(depth);
    float *own = (float *)(void *)(codes + to->width * stride);
    for (int64_t line = 0; line < lines; line++) {
        const float *x = row_at(o, (first + line) * o->stride, depth, own);
        to->scales[line] = matmul_int8_scale(o, codes_largest(x, depth));
        codes_encode(x, codes_inverse(to->scales[line]), NULL, depth, codes + line * stride);
    }
    weave(codes, stride, lines, depth, to);
    set_starts(codes, stride, lines, depth, to);
}

/* ---- codes of neighbouring lines: four rows become one of words ---- */

VECTOR_CLONES static void weave_rows(const int8_t *const row[MATMUL_INT8_FOUR], int64_t n, uint32_t flip,
                                     uint32_t *restrict words) {
    const int8_t *a = row[0], *b = row[1], *c = row[2], *d = row[3];
    for (int64_t i = 0; i < n; i++)
        words[i] = ((uint32_t)(uint8_t)a[i] | (uint32_t)(uint8_t)b[i] << 8 | (uint32_t)(uint8_t)c[i] << 16 |
                    (uint32_t)(uint8_t)d[i] << 24) ^
                   flip;
}

VECTOR_CLONES static void add_rows(const int8_t *const row[MATMUL_INT8_FOUR], int64_t n,
                                   int32_t *restrict starts) {
    const int8_t *a = row[0], *b = row[1], *c = row[2], *d = row[3];
    for (int64_t i = 0; i < n; i++)
        starts[i] = (int32_t)((uint32_t)starts[i] - 128u * (uint32_t)(a[i] + b[i] + c[i] + d[i]));
}

static void copy_across(const matmul_int8_operand *o, int64_t first, int64_t lines, int64_t depth,
                        const matmul_int8_panels *to) {
    static const int8_t zeros[CODES_DRAWN];
    clear(to, lines, depth);
    for (int64_t line = 0; to->starts && line < to->width; line++) to->starts[line] = 0;
    for (int64_t f = 0; f < to->fours; f++) {
        const int8_t *row[MATMUL_INT8_FOUR];
        for (int64_t k = 0; k < MATMUL_INT8_FOUR; k++) {
            int64_t d = f * MATMUL_INT8_FOUR + k;
            row[k] = d < depth ? (const int8_t *)o->data + d * o->stride + first : zeros;
        }
        weave_rows(row, lines, to->flip, to->words + f * to->width);
        if (to->starts) add_rows(row, lines, to->starts);
    }
}

void matmul_int8_copy_codes(const matmul_int8_operand *o, int64_t first, int64_t lines, int64_t depth,
                            const matmul_int8_panels *to) {
    if (o->across) {
        copy_across(o, first, lines, depth, to);
        return;
    }
    const int8_t *codes = (const int8_t *)o->data + first * o->stride;
    weave(codes, o->stride, lines, depth, to);
    set_starts(codes, o->stride, lines, depth, to);
}

/* ---- floats of neighbouring lines ---- */

typedef struct {
    const matmul_int8_operand *o;
    const matmul_int8_block *at;
    float inverse[CODES_DRAWN], own[CODES_DRAWN];
    int8_t codes[MATMUL_INT8_FOUR][CODES_DRAWN];
    int32_t largest[CODES_DRAWN], starts[CODES_DRAWN];
    uint32_t words[CODES_DRAWN];
} across;

static const float *across_row(across *w, int64_t depth) {
    return row_at(w->o, (w->at->from + depth) * w->o->stride + w->at->first, w->at->lines, w->own);
}

/* Asks for a row's numbers. Rows lie far apart, so the processor does not see the next one coming. */
static void fetch_row(const across *w, int64_t depth) {
    enum { LINE = 64 };
    if (depth >= w->at->depth) return;
    int64_t bytes = (int64_t)dtype_bytes(w->o->type), row = w->at->from + depth;
    const char *x = (const char *)w->o->data + (row * w->o->stride + w->at->first) * bytes;
    for (int64_t b = 0; b < w->at->lines * bytes; b += LINE) __builtin_prefetch(x + b);
}

/* The sizes of bf16 are the upper halves of those of the f32 that they are. */
VECTOR_CLONES static void largest_bf16(const uint16_t *restrict x, int64_t n, uint16_t *restrict largest) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t size = x[i] & 0x7fffu;
        largest[i] = size > largest[i] ? size : largest[i];
    }
}

/* The largest size of each line into w->largest, which holds zeros. */
static void look(across *w) {
    enum { AHEAD = 8 }; /* rows */
    bool plain = w->o->type == DTYPE_BF16 && !w->o->fold;
    uint16_t largest[CODES_DRAWN] = { 0 };
    for (int64_t d = 0; d < AHEAD; d++) fetch_row(w, d);
    for (int64_t d = 0; d < w->at->depth; d++) {
        int64_t place = (w->at->from + d) * w->o->stride + w->at->first;
        fetch_row(w, d + AHEAD);
        if (plain)
            largest_bf16((const uint16_t *)w->o->data + place, w->at->lines, largest);
        else
            codes_largest_each(across_row(w, d), w->at->lines, w->largest);
    }
    for (int64_t i = 0; plain && i < w->at->lines; i++) w->largest[i] = (int32_t)largest[i] << 16;
}

static void code_row(across *w, int64_t depth, int8_t *codes) {
    const float *x = across_row(w, depth);
    uint8_t bytes[CODES_DRAWN];
    fetch_row(w, depth + 2);
    if (!w->o->random) {
        codes_encode_each(x, w->inverse, NULL, w->at->lines, codes);
        return;
    }
    int64_t row = w->o->first + w->at->from + depth, within = row % w->o->sample_rows;
    codes_draw draw = { .random = *w->o->random, .sample = (uint32_t)(row / w->o->sample_rows) };
    codes_draw_bytes(&draw, within * codes_draws(w->o->stride) + w->at->first / CODES_DRAWN, bytes);
    codes_encode_each_coarse(x, w->inverse, bytes, w->at->lines, codes);
}

/* Words of lines that lie in several panels, most of which they fill; `width` is a constant wherever this is
 * inlined. */
VECTOR_INLINE void spread_over(const across *w, int64_t four, const matmul_int8_panels *to,
                               const int64_t width) {
    int64_t panel = w->at->first / width, place = w->at->first % width, i = 0;
    uint32_t *words = to->words + (panel * to->fours + four) * width;
    if (place) {
        i = least(width - place, w->at->lines);
        memcpy(words + place, w->words, (size_t)i * sizeof *words);
        words += to->fours * width;
    }
    for (; i + width <= w->at->lines; i += width, words += to->fours * width)
        memcpy(words, w->words + i, (size_t)width * sizeof *words);
    if (i < w->at->lines) memcpy(words, w->words + i, (size_t)(w->at->lines - i) * sizeof *words);
}

static void spread(const across *w, int64_t four, const matmul_int8_panels *to) {
    if (to->width == MATMUL_INT8_ROWS)
        spread_over(w, four, to, MATMUL_INT8_ROWS);
    else
        spread_over(w, four, to, MATMUL_INT8_COLUMNS);
}

/* What the last panel has beyond the last line. */
static void fill_up(const across *w, const matmul_int8_panels *to) {
    int64_t end = w->at->first + w->at->lines, place = end % to->width, panel = end / to->width;
    if (end < w->o->stride || !place) return;
    for (int64_t f = 0; f < to->fours; f++)
        memset(to->words + (panel * to->fours + f) * to->width + place, 0,
               (size_t)(to->width - place) * sizeof *to->words);
    for (int64_t i = 0; to->starts && i < to->width - place; i++) to->starts[end + i] = 0;
}

void matmul_int8_code_across(const matmul_int8_operand *o, const matmul_int8_block *at,
                             const matmul_int8_panels *to) {
    across w = { .o = o, .at = at };
    const int8_t *const rows[MATMUL_INT8_FOUR] = { w.codes[0], w.codes[1], w.codes[2], w.codes[3] };
    look(&w);
    for (int64_t i = 0; i < at->lines; i++) {
        to->scales[at->first + i] = codes_scale(w.largest[i]);
        w.inverse[i] = codes_inverse(to->scales[at->first + i]);
    }
    for (int64_t f = 0; f < to->fours; f++) {
        for (int64_t k = 0; k < MATMUL_INT8_FOUR; k++) {
            int64_t d = f * MATMUL_INT8_FOUR + k;
            if (d < at->depth)
                code_row(&w, d, w.codes[k]);
            else
                memset(w.codes[k], 0, sizeof w.codes[k]);
        }
        weave_rows(rows, at->lines, to->flip, w.words);
        if (to->starts) add_rows(rows, at->lines, w.starts);
        spread(&w, f, to);
    }
    if (to->starts) memcpy(to->starts + at->first, w.starts, (size_t)at->lines * sizeof *w.starts);
    fill_up(&w, to);
}
