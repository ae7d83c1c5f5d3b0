/* Few rows of bf16 by bf16 in tiles, which take 32 depths at once. Where b's rows run along the depth its
 * lines are a tile as they lie in memory, and sums come turned; where they run along the columns two depths
 * are woven into the pairs of a tile, 32 columns at a time. Registers have as many rows of a as there are, so
 * sums of few rows cost little to load and to store. */
#include "ops/matmul/matmul_stream.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-bf16")))
#include "ops/matmul/matmul_avx512.h"
#include "ops/tile_form.h"

#define INLINE inline __attribute__((always_inline))

enum {
    STEP = 32, /* depths of a tile */
    WORDS = STEP / 2,
    BYTES = 64, /* of a tile's row */
    COLUMNS = MATMUL_MAX_COLUMNS,
    STEPS = MATMUL_DEPTH / STEP
};

/* ---- forms of the registers ---- */

#define OF_EACH_WIDTH(form)                                                                                  \
    form(1), form(2), form(3), form(4), form(6), form(8), form(12), form(16), form(24), form(32)

static const tile_form across_forms[MATMUL_STREAM_ROWS + 1] = { OF_EACH_WIDTH(TILE_FORM_ACROSS) };
static const tile_form along_forms[MATMUL_STREAM_ROWS + 1] = { OF_EACH_WIDTH(TILE_FORM_ALONG) };

/* Asks for 32 lines, `stride` apart: into the second cache; near: from there into the first. */
TARGET static INLINE void ask(const char *at, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < STEP; i++) _mm_prefetch(at + i * stride, _MM_HINT_T1);
}

TARGET static INLINE void ask_near(const char *at, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < STEP; i++) _mm_prefetch(at + i * stride, _MM_HINT_T0);
}

/* ---- b's rows run along the columns ---- */

/* A slice of a as rows: of each step (rows, WORDS) words. */
TARGET static void turn_rows(const matmul_strip *s, const uint32_t *pairs, int64_t steps, uint32_t *to) {
    for (int64_t i = 0; i < steps; i++, pairs += WORDS * s->rows, to += WORDS * s->rows)
        for (int64_t first = 0; first < s->rows; first += VECTOR) {
            __m512 x[VECTOR];
            __mmask16 inside = first_lanes(s->rows - first);
#pragma GCC unroll 16
            for (int q = 0; q < WORDS; q++) x[q] = _mm512_maskz_loadu_ps(inside, pairs + q * s->rows + first);
            turn(x);
#pragma GCC unroll 16
            for (int r = 0; r < VECTOR; r++)
                if (first + r < s->rows) _mm512_storeu_ps(to + (first + r) * WORDS, x[r]);
        }
}

/* Some depths of the strip, at most STEP, from its first column on. */
typedef struct {
    const char *row, *ahead; /* of the first; what is asked for when it is read */
    int64_t stride, depths;  /* bytes */
    const uint32_t *a;       /* their step */
    bool first;              /* of the slice: sums begin at 0 */
} band;

/* COLUMNS columns: in the two tiles words of four of every eight columns each, as instructions leave them. */
TARGET static INLINE void weave(const char *at, int64_t stride, const int depths, char *tiles) {
#pragma GCC unroll 16
    for (int p = 0; p < STEP; p += 2) {
        __m512i even = p < depths ? _mm512_loadu_si512(at + p * stride) : _mm512_setzero_si512();
        __m512i odd = p + 1 < depths ? _mm512_loadu_si512(at + (p + 1) * stride) : _mm512_setzero_si512();
        char *to = tiles + p / 2 * BYTES;
        _mm512_store_si512(to, _mm512_unpacklo_epi16(even, odd));
        _mm512_store_si512(to + WORDS * BYTES, _mm512_unpackhi_epi16(even, odd));
    }
}

TARGET static INLINE void add_woven(const matmul_strip *s, const band *k, const char *tiles, float *work) {
    const int64_t stride = s->columns * (int64_t)sizeof *work;
    const bool two = s->rows > VECTOR;
    float *upper = work + VECTOR * s->columns;
    if (k->first) {
        _tile_zero(0);
        _tile_zero(1);
        if (two) _tile_zero(2);
        if (two) _tile_zero(3);
    } else {
        _tile_loadd(0, work, stride);
        _tile_loadd(1, work + VECTOR, stride);
        if (two) _tile_loadd(2, upper, stride);
        if (two) _tile_loadd(3, upper + VECTOR, stride);
    }
    _tile_loadd(6, tiles, BYTES);
    _tile_loadd(7, tiles + WORDS * BYTES, BYTES);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (two) _tile_dpbf16ps(2, 5, 6);
    if (two) _tile_dpbf16ps(3, 5, 7);
    _tile_stored(0, work, stride);
    _tile_stored(1, work + VECTOR, stride);
    if (two) _tile_stored(2, upper, stride);
    if (two) _tile_stored(3, upper + VECTOR, stride);
}

/* Tiles are read one turn after they were written, when they have arrived in the cache. */
TARGET static void add_band(const matmul_strip *s, const band *k) {
    enum { TILES = 2 * WORDS * BYTES };
    char room[2 * TILES] __attribute__((aligned(64)));
    _tile_loadd(4, k->a, BYTES);
    if (s->rows > VECTOR) _tile_loadd(5, k->a + VECTOR * WORDS, BYTES);
    for (int64_t j = 0; j <= s->columns; j += COLUMNS) {
        char *here = room + (j / COLUMNS % 2 ? TILES : 0), *before = room + (j / COLUMNS % 2 ? 0 : TILES);
        if (j < s->columns) {
            ask(k->ahead + 2 * j, k->stride);
            if (j + COLUMNS < s->columns) ask_near(k->row + 2 * (j + COLUMNS), k->stride);
            if (k->depths == STEP)
                weave(k->row + 2 * j, k->stride, STEP, here);
            else
                weave(k->row + 2 * j, k->stride, (int)k->depths, here);
        }
        if (j > 0) add_woven(s, k, before, s->work + j - COLUMNS);
    }
}

/* The slice's sums, which are in `work`, to those before; columns come into their order. */
TARGET static void add_slice(const matmul_strip *s, bool first) {
    const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                  high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    for (int64_t i = 0; i < s->rows * s->columns; i += COLUMNS) {
        __m512d a = _mm512_load_pd(s->work + i), b = _mm512_load_pd(s->work + i + VECTOR);
        __m512 x[2] = { _mm512_castpd_ps(_mm512_permutex2var_pd(a, low, b)),
                        _mm512_castpd_ps(_mm512_permutex2var_pd(a, high, b)) };
        for (int v = 0; v < 2; v++) {
            float *sum = s->sum + i + v * VECTOR;
            _mm512_store_ps(sum, _mm512_add_ps(first ? _mm512_setzero_ps() : _mm512_load_ps(sum), x[v]));
        }
    }
}

TARGET static void sum_across(const matmul_strip *s) {
    uint32_t a[STEPS * WORDS * MATMUL_STREAM_ROWS] __attribute__((aligned(64)));
    const char *b = (const char *)s->b->data + 2 * s->line;
    band k = { .stride = 2 * s->b->stride };
    _tile_loadconfig(&across_forms[s->rows]);
    for (int64_t slice = 0; slice < s->depth; slice += MATMUL_DEPTH) {
        int64_t end = slice + MATMUL_DEPTH < s->depth ? slice + MATMUL_DEPTH : s->depth;
        turn_rows(s, (const uint32_t *)s->a + slice / 2 * s->rows, (end - slice + STEP - 1) / STEP, a);
        for (int64_t depth = slice; depth < end; depth += STEP) {
            int64_t next = depth + STEP;
            k.depths = end - depth < STEP ? end - depth : STEP;
            k.row = b + depth * k.stride, k.first = depth == slice && !s->begun;
            k.ahead = next < s->depth ? b + next * k.stride
                      : s->after      ? (const char *)s->after + (next - s->depth) * k.stride
                                      : k.row;
            k.a = a + (depth - slice) / 2 * s->rows;
            add_band(s, &k);
        }
        if (!s->unfinished) add_slice(s, slice == 0);
    }
    _tile_release();
}

/* ---- b's rows run along the depth ---- */

/* COLUMNS lines by STEP depths, the last of which are missing. */
TARGET static void fill_up(const char *at, int64_t stride, int64_t depths, char *tiles) {
    __mmask32 inside = (__mmask32)((1ull << depths) - 1);
    for (int i = 0; i < COLUMNS; i++)
        _mm512_store_si512(tiles + i * BYTES, _mm512_maskz_loadu_epi16(inside, at + i * stride));
}

TARGET static INLINE void add_lines(const matmul_strip *s, const char *lines, int64_t stride,
                                    const uint32_t *a) {
    const int64_t width = 4 * s->rows;
    const bool two = s->rows > VECTOR;
    _tile_loadd(4, lines, stride);
    _tile_loadd(5, lines + VECTOR * stride, stride);
    _tile_loadd(6, a, width);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    if (!two) return;
    _tile_loadd(7, a + VECTOR, width);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
}

/* Sums of VECTOR lines by some rows, a line to each 64 bytes, onto those rows of the strip's. */
TARGET static void add_turned(const float *sums, int64_t rows, float *to, int64_t stride, bool first) {
    __m512 x[VECTOR];
#pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++) x[i] = _mm512_load_ps(sums + i * VECTOR);
    turn(x);
#pragma GCC unroll 16
    for (int r = 0; r < VECTOR; r++)
        if (r < rows) {
            float *sum = to + r * stride;
            _mm512_store_ps(sum, _mm512_add_ps(first ? _mm512_setzero_ps() : _mm512_load_ps(sum), x[r]));
        }
}

TARGET static INLINE void end_lines(const matmul_strip *s, int64_t column, bool first) {
    enum { TILE = VECTOR * VECTOR };
    float room[4 * TILE] __attribute__((aligned(64)));
    _tile_stored(0, room, BYTES);
    _tile_stored(1, room + TILE, BYTES);
    if (s->rows > VECTOR) _tile_stored(2, room + 2 * TILE, BYTES);
    if (s->rows > VECTOR) _tile_stored(3, room + 3 * TILE, BYTES);
    for (int64_t row = 0, half = 0; row < s->rows; row += VECTOR, half += 2 * TILE)
        for (int i = 0; i < 2; i++)
            add_turned(room + half + i * TILE, s->rows - row, s->sum + row * s->columns + column + i * VECTOR,
                       s->columns, first);
}

/* COLUMNS lines; as much is asked for at `ahead` as is read. */
TARGET static void sum_lines(const matmul_strip *s, int64_t column, const char *line, const char *ahead) {
    const int64_t stride = 2 * s->b->stride;
    char room[COLUMNS * BYTES] __attribute__((aligned(64)));
    for (int64_t slice = 0; slice < s->depth; slice += MATMUL_DEPTH) {
        int64_t end = slice + MATMUL_DEPTH < s->depth ? slice + MATMUL_DEPTH : s->depth;
        _tile_zero(0);
        _tile_zero(1);
        if (s->rows > VECTOR) _tile_zero(2);
        if (s->rows > VECTOR) _tile_zero(3);
        for (int64_t p = slice; p < end; p += STEP, ahead += COLUMNS * BYTES) {
            const uint32_t *a = (const uint32_t *)s->a + p / 2 * s->rows;
            ask(ahead, BYTES);
            if (end - p >= STEP) {
                add_lines(s, line + 2 * p, stride, a);
                continue;
            }
            fill_up(line + 2 * p, stride, end - p, room);
            add_lines(s, room, BYTES, a);
        }
        end_lines(s, column, slice == 0);
    }
}

TARGET static void sum_along(const matmul_strip *s) {
    const int64_t bytes = 2 * s->b->stride * COLUMNS;
    const char *here = (const char *)s->b->data + 2 * s->line * s->b->stride;
    _tile_loadconfig(&along_forms[s->rows]);
    for (int64_t j = 0; j < s->columns; j += COLUMNS, here += bytes)
        sum_lines(s, j, here, j + COLUMNS < s->columns ? here + bytes : s->after ? s->after : here);
    _tile_release();
}

bool matmul_streams_amx(dtype b) { return b == DTYPE_BF16; }

void matmul_stream_amx(const matmul_strip *s) {
    if (s->b->across)
        sum_across(s);
    else
        sum_along(s);
}
#endif
