/* Few rows of codes in tiles, which take 64 depths at once. Where b's rows run along the depth its lines are
 * a tile as they lie in memory, and sums come turned; where they run along the columns four depths are woven
 * into the fours of a tile, 64 columns at a time. Where rows are fewer than the least below memory bounds
 * vectors as well, and they are as fast or faster. */
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-int8")))
#include "ops/matmul/matmul_avx512.h"
#include "ops/matmul_int8/matmul_int8_weave_avx512.h"
#include "ops/tile_form.h"

enum {
    LEAST_ACROSS = 9, /* rows */
    LEAST_ALONG = 5,
    STEP = 64,  /* depths of a tile */
    WORDS = 16, /* fours of a step */
    BYTES = 64, /* of a tile's row */
    TILE = WORDS * BYTES,
    UNIT = 64,  /* columns that are woven at once: four tiles */
    LINES = 32, /* lines at once: two tiles */
    STEPS = 16  /* steps whose fours of a are kept */
};

/* ---- forms of the registers ---- */

#define EIGHT(form, n)                                                                                       \
    form(n), form(n + 1), form(n + 2), form(n + 3), form(n + 4), form(n + 5), form(n + 6), form(n + 7)
#define OF_EACH(form) EIGHT(form, 1), EIGHT(form, 9), EIGHT(form, 17), EIGHT(form, 25)

static const tile_form across_forms[MATMUL_INT8_STREAM_ROWS + 1] = { OF_EACH(TILE_FORM_ACROSS) };
static const tile_form along_forms[MATMUL_INT8_STREAM_ROWS + 1] = { OF_EACH(TILE_FORM_ALONG) };

/* Asks for `lines` lines of memory, `stride` apart: into the second cache; near: from there into the first.
 */
TARGET static INLINE void ask(const int8_t *at, int64_t stride, const int lines) {
#pragma GCC unroll 8
    for (int i = 0; i < lines; i++) _mm_prefetch((const char *)at + i * stride, _MM_HINT_T1);
}

TARGET static INLINE void ask_near(const int8_t *at, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < STEP; i++) _mm_prefetch((const char *)at + i * stride, _MM_HINT_T0);
}

/* ---- b's rows run along the columns ---- */

/* UNIT columns of some depths, at most STEP; a's codes are 0 behind the last. */
TARGET static INLINE void weave_step(const int8_t *at, int64_t stride, const int depths, int8_t *tiles) {
#pragma GCC unroll 16
    for (int q = 0; q < WORDS; q++) {
        vec b[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            int d = 4 * q + i;
            b[i] = d < depths ? _mm512_loadu_si512(at + d * stride) : _mm512_setzero_si512();
        }
        weave(b);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) _mm512_store_si512(tiles + v * TILE + q * BYTES, b[v]);
    }
}

/* Two of the four tiles onto the sums of 32 columns. */
TARGET static INLINE void add_woven(const matmul_int8_strip *s, const int8_t *tiles, bool first,
                                    int32_t *sum) {
    const int64_t stride = s->columns * (int64_t)sizeof *sum;
    const bool two = s->rows > WORDS;
    int32_t *above = sum + WORDS * s->columns;
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        if (two) _tile_zero(2);
        if (two) _tile_zero(3);
    } else {
        _tile_loadd(0, sum, stride);
        _tile_loadd(1, sum + WORDS, stride);
        if (two) _tile_loadd(2, above, stride);
        if (two) _tile_loadd(3, above + WORDS, stride);
    }
    _tile_loadd(6, tiles, BYTES);
    _tile_loadd(7, tiles + TILE, BYTES);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    if (two) _tile_dpbssd(2, 5, 6);
    if (two) _tile_dpbssd(3, 5, 7);
    _tile_stored(0, sum, stride);
    _tile_stored(1, sum + WORDS, stride);
    if (two) _tile_stored(2, above, stride);
    if (two) _tile_stored(3, above + WORDS, stride);
}

/* The step that begins with depth `from`. Tiles are read one turn after they were written, when they have
 * arrived in the cache. */
TARGET static void add_step(const matmul_int8_strip *s, int64_t from) {
    int8_t room[2][4 * TILE] __attribute__((aligned(64)));
    const int8_t *row = s->b + from * s->stride;
    int64_t left = s->depth - from, next = left > STEP ? STEP : 0;
    _tile_loadd(4, s->a + from, s->stride_a);
    if (s->rows > WORDS) _tile_loadd(5, s->a + WORDS * s->stride_a + from, s->stride_a);
    for (int64_t j = 0; j <= s->columns; j += UNIT) {
        int8_t *here = room[j / UNIT % 2], *before = room[1 - j / UNIT % 2];
        if (j < s->columns) {
            ask(row + next * s->stride + j, s->stride, STEP);
            if (j + UNIT < s->columns) ask_near(row + j + UNIT, s->stride);
            if (left >= STEP)
                weave_step(row + j, s->stride, STEP, here);
            else
                weave_step(row + j, s->stride, (int)left, here);
        }
        for (int half = 0; j > 0 && half < 2; half++)
            add_woven(s, before + 2 * half * TILE, from == 0, s->sum + j - UNIT + 2 * half * WORDS);
    }
}

TARGET static void sum_across(const matmul_int8_strip *s) {
    _tile_loadconfig(&across_forms[s->rows]);
    for (int64_t from = 0; from < s->depth; from += STEP) add_step(s, from);
    _tile_release();
    for (int64_t i = 0; i < s->rows * s->columns; i += UNIT) {
        vec x[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) x[v] = _mm512_load_si512(s->sum + i + v * WORDS);
        in_order(x);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) _mm512_store_si512(s->sum + i + v * WORDS, x[v]);
    }
}

/* ---- b's rows run along the depth ---- */

/* Codes of a at some steps from depth `from` on, as fours: of each step (WORDS, rows). */
TARGET static void turn_rows(const matmul_int8_strip *s, int64_t from, int64_t steps, uint32_t *to) {
    for (int64_t i = 0; i < steps; i++, to += WORDS * s->rows)
        for (int64_t first = 0; first < s->rows; first += WORDS) {
            const int8_t *a = s->a + first * s->stride_a + from + i * STEP;
            __mmask16 inside = first_lanes(s->rows - first);
            __m512 x[VECTOR];
#pragma GCC unroll 16
            for (int r = 0; r < VECTOR; r++)
                x[r] = first + r < s->rows ? _mm512_loadu_ps((const void *)(a + r * s->stride_a))
                                           : _mm512_setzero_ps();
            turn(x);
#pragma GCC unroll 16
            for (int q = 0; q < WORDS; q++) _mm512_mask_storeu_ps(to + q * s->rows + first, inside, x[q]);
        }
}

/* Lines whose last step misses depths. */
TARGET static void fill_up(const int8_t *at, int64_t stride, int64_t depths, int8_t *tiles) {
    __mmask64 inside = (__mmask64)((1ull << depths) - 1);
    for (int i = 0; i < LINES; i++)
        _mm512_store_si512(tiles + i * BYTES, _mm512_maskz_loadu_epi8(inside, at + i * stride));
}

TARGET static INLINE void add_lines(const matmul_int8_strip *s, const int8_t *lines, int64_t stride,
                                    const uint32_t *a) {
    const int64_t width = 4 * s->rows;
    _tile_loadd(4, lines, stride);
    _tile_loadd(5, lines + WORDS * stride, stride);
    _tile_loadd(6, a, width);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    if (s->rows <= WORDS) return;
    _tile_loadd(7, a + WORDS, width);
    _tile_dpbssd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
}

/* Sums of WORDS lines by some rows, a line to each 64 bytes, onto those rows of the strip's. */
TARGET static void add_turned(const int32_t *sums, int64_t rows, int32_t *to, int64_t stride, bool first) {
    __m512 x[VECTOR];
#pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++) x[i] = _mm512_load_ps((const void *)(sums + i * WORDS));
    turn(x);
#pragma GCC unroll 16
    for (int r = 0; r < VECTOR; r++)
        if (r < rows) {
            int32_t *sum = to + r * stride;
            vec old = first ? _mm512_setzero_si512() : _mm512_load_si512(sum);
            _mm512_store_si512(sum, _mm512_add_epi32(old, _mm512_castps_si512(x[r])));
        }
}

TARGET static INLINE void end_lines(const matmul_int8_strip *s, int64_t column, bool first) {
    enum { SUMS = WORDS * WORDS };
    int32_t room[4 * SUMS] __attribute__((aligned(64)));
    _tile_stored(0, room, BYTES);
    _tile_stored(1, room + SUMS, BYTES);
    if (s->rows > WORDS) _tile_stored(2, room + 2 * SUMS, BYTES);
    if (s->rows > WORDS) _tile_stored(3, room + 3 * SUMS, BYTES);
    for (int64_t row = 0, half = 0; row < s->rows; row += WORDS, half += 2 * SUMS)
        for (int i = 0; i < 2; i++)
            add_turned(room + half + i * SUMS, s->rows - row, s->sum + row * s->columns + column + i * WORDS,
                       s->columns, first);
}

/* LINES lines from depth `from` up to `end`; as much is asked for, lines further on, as is read. */
TARGET static void sum_lines(const matmul_int8_strip *s, int64_t column, int64_t from, int64_t end,
                             const uint32_t *a) {
    const int8_t *line = s->b + column * s->stride, *ahead = line + LINES * s->stride;
    int8_t room[LINES * BYTES] __attribute__((aligned(64)));
    _tile_zero(0);
    _tile_zero(1);
    if (s->rows > WORDS) _tile_zero(2);
    if (s->rows > WORDS) _tile_zero(3);
    for (int64_t d = from; d < end; d += STEP, a += WORDS * s->rows) {
        ask(ahead + d, s->stride, LINES);
        if (end - d >= STEP) {
            add_lines(s, line + d, s->stride, a);
            continue;
        }
        fill_up(line + d, s->stride, end - d, room);
        add_lines(s, room, BYTES, a);
    }
    end_lines(s, column, from == 0);
}

TARGET static void sum_along(const matmul_int8_strip *s) {
    enum { DEPTHS = STEPS * STEP };
    uint32_t a[STEPS * WORDS * MATMUL_INT8_STREAM_ROWS] __attribute__((aligned(64)));
    _tile_loadconfig(&along_forms[s->rows]);
    for (int64_t from = 0; from < s->depth; from += DEPTHS) {
        int64_t end = s->depth - from < DEPTHS ? s->depth : from + DEPTHS;
        turn_rows(s, from, (end - from + STEP - 1) / STEP, a);
        for (int64_t j = 0; j < s->columns; j += LINES) sum_lines(s, j, from, end, a);
    }
    _tile_release();
}

void matmul_int8_stream_amx(const matmul_int8_strip *s) {
    if (s->rows < (s->across ? LEAST_ACROSS : LEAST_ALONG))
        matmul_int8_stream_vnni(s);
    else if (s->across)
        sum_across(s);
    else
        sum_along(s);
}
#endif
