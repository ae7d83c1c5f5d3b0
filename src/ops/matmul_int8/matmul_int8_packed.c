/* The loops around the micro-kernel. For a wave at a time, a becomes panels of codes in scratch that all
 * threads share, and so does b where it comes as floats; then y is made tile by tile, a tile being a panel of
 * b and some panels of a. Stored codes of b become a panel in scratch of the thread whose tile it is. */
#include <stddef.h>
#include <string.h>

#include "base/least.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"

enum { ROWS = MATMUL_INT8_ROWS, COLUMNS = MATMUL_INT8_COLUMNS, BLOCK = MATMUL_INT8_BLOCK_ROWS * COLUMNS };

static bool stored(const matmul_int8_problem *p) { return p->b.type == DTYPE_I8; }
static bool over_rows(const matmul_int8_problem *p) { return p->a.across; }

/* ---- scratch, in bytes; every part aligned to 64 ---- */

typedef struct {
    int64_t tiles;                /* of depth, in a wave */
    int64_t lines_a, lines_b;     /* in panels at a time, whole panels; b: 0 where it is stored */
    int64_t fours;                /* of a tile of depth, as filled up by any micro-kernel */
    int64_t a, b, own, own_bytes; /* where what threads share begins, and what they have for themselves */
    int64_t own_panel, own_sums;  /* in there */
} layout;

static int64_t align(int64_t n) { return (n + 63) & ~(int64_t)63; }

/* Words, scales and starts of so many lines. */
static int64_t panel_bytes(int64_t lines, int64_t fours) {
    return align(lines * fours * 4) + 2 * align(lines * 4);
}

/* Sums of a narrow y must be complete before they are rounded: then a wave is all there is. */
static layout layout_of(const matmul_int8_problem *p, int threads) {
    layout l = { .tiles = 1, .lines_a = least(p->rows, MATMUL_INT8_WAVE) };
    if (over_rows(p)) {
        int64_t all = divide_up(p->depth, p->tile);
        l.tiles = dtype_is_half(p->type) ? all : least(all, MATMUL_INT8_WAVE_TILES);
        l.lines_a = p->rows;
    }
    l.lines_a = divide_up(l.lines_a, ROWS) * ROWS;
    l.lines_b = stored(p) ? 0 : divide_up(p->columns, COLUMNS) * COLUMNS;
    l.fours = divide_up(p->tile, MATMUL_INT8_FOUR * MATMUL_INT8_FILL) * MATMUL_INT8_FILL;
    l.b = l.tiles * panel_bytes(l.lines_a, l.fours);
    l.own = l.b + l.tiles * panel_bytes(l.lines_b, l.fours);
    int64_t room = over_rows(p) ? 0 : align((int64_t)matmul_int8_room(stored(p) ? ROWS : COLUMNS, p->depth));
    int64_t panel = stored(p) ? panel_bytes(COLUMNS, l.fours) : 0;
    l.own_panel = 0, l.own_sums = panel;
    l.own_bytes = most(room, panel + BLOCK * (int64_t)sizeof(int32_t));
    (void)threads;
    return l;
}

uint64_t matmul_int8_packed_scratch(const matmul_int8_problem *p, int threads) {
    layout l = layout_of(p, threads);
    return (uint64_t)(l.own + l.own_bytes * threads);
}

/* Panels of tile `tile` of the depth, from line `line` on, which begins one. */
static matmul_int8_panels panels_at(char *at, int64_t lines, int64_t width, int64_t fours, int64_t line) {
    uint32_t *words = (void *)at;
    float *scales = (void *)(at + align(lines * fours * 4));
    int32_t *starts = (void *)(at + align(lines * fours * 4) + align(lines * 4));
    return (matmul_int8_panels){ .width = width,
                                 .fours = fours,
                                 .flip = width == ROWS ? 0x80808080u : 0,
                                 .words = words + line * fours,
                                 .scales = scales + line,
                                 .starts = width == ROWS ? NULL : starts + line };
}

/* ---- work ---- */

typedef struct {
    const matmul_int8_problem *p;
    const matmul_int8_kernel *kernel;
    layout l;
    char *scratch;
    int64_t row, rows;   /* of a that are in panels */
    int64_t from, depth; /* of the sum */
    int64_t tiles;       /* of depth */
    int64_t fours;       /* of stored codes of b, which are one tile */
    bool b_too;          /* is to become panels */
    int64_t pieces_a;    /* of work, when a becomes panels */
} job;

static int64_t fours_of(const matmul_int8_kernel *k, int64_t depth) {
    return divide_up(depth, MATMUL_INT8_FOUR * k->fill) * k->fill;
}

static matmul_int8_panels panels_of(const job *j, bool is_b, int64_t tile, int64_t line) {
    int64_t lines = is_b ? j->l.lines_b : j->l.lines_a;
    char *at = j->scratch + (is_b ? j->l.b : 0) + tile * panel_bytes(lines, j->l.fours);
    matmul_int8_panels to = panels_at(at, lines, is_b ? COLUMNS : ROWS, j->l.fours, line);
    int64_t depth = least(j->p->tile, j->depth - tile * j->p->tile);
    to.fours = fours_of(j->kernel, depth);
    if (to.fours != j->l.fours) to.words = (uint32_t *)(void *)at + line * to.fours;
    return to;
}

static char *own(const job *j, int thread) { return j->scratch + j->l.own + thread * j->l.own_bytes; }

/* ---- operands into panels ---- */

static int64_t pieces_of(const job *j, bool is_b) {
    int64_t lines = is_b ? j->p->columns : j->rows, width = is_b ? COLUMNS : ROWS;
    if (is_b && !j->b_too) return 0;
    const matmul_int8_operand *o = is_b ? &j->p->b : &j->p->a;
    return o->across ? j->tiles * divide_up(lines, CODES_DRAWN) : divide_up(lines, width);
}

/* Neighbouring panels of b. Pieces of b are whole panels. */
static void arrange(const job *j, const matmul_int8_panels *b, int64_t panels) {
    for (int64_t k = 0; j->kernel->arrange && !b->arranged && k < panels; k++)
        j->kernel->arrange(b->fours, b->words + k * COLUMNS * b->fours);
}

static void prepare_piece(void *context, int64_t index, int thread) {
    const job *j = context;
    bool is_b = index >= j->pieces_a;
    int64_t piece = is_b ? index - j->pieces_a : index, lines = is_b ? j->p->columns : j->rows,
            width = is_b ? COLUMNS : ROWS;
    const matmul_int8_operand *o = is_b ? &j->p->b : &j->p->a;
    if (!o->across) {
        matmul_int8_panels to = panels_of(j, is_b, 0, piece * width);
        to.arranged = is_b && j->kernel->arrange;
        matmul_int8_code_lines(o, (is_b ? 0 : j->row) + piece * width, least(width, lines - piece * width),
                               j->depth, &to, own(j, thread));
        if (is_b) arrange(j, &to, 1);
        return;
    }
    int64_t blocks = divide_up(lines, CODES_DRAWN), tile = piece / blocks,
            first = piece % blocks * CODES_DRAWN;
    matmul_int8_panels to = panels_of(j, is_b, tile, 0);
    matmul_int8_block at = { .first = first,
                             .lines = least(CODES_DRAWN, lines - first),
                             .from = j->from + tile * j->p->tile,
                             .depth = least(j->p->tile, j->depth - tile * j->p->tile) };
    matmul_int8_code_across(o, &at, &to);
    to.words += first * to.fours;
    if (is_b) arrange(j, &to, divide_up(at.lines, COLUMNS));
}

/* ---- blocks of y ---- */

/* What becomes of a block of sums, and where. */
typedef struct {
    int64_t rows, columns, place; /* place: of its first element in y */
    float x[BLOCK];
} ending;

static const void *element(const void *data, int64_t place, dtype type) {
    return (const char *)data + place * (int64_t)dtype_bytes(type);
}

VECTOR_CLONES static void add_floats(float *restrict x, const float *restrict y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = y[i] + x[i];
}

static void add_row(float *x, const void *from, int64_t n, dtype type) {
    float wide[COLUMNS];
    if (dtype_is_half(type)) half_widen(type, from, n, wide);
    add_floats(x, dtype_is_half(type) ? wide : from, n);
}

/* x + bias + residual, and into its place. */
static void end_block(const matmul_int8_problem *p, ending *e, int64_t column) {
    for (int64_t i = 0; i < e->rows; i++) {
        float *x = e->x + i * COLUMNS;
        int64_t place = e->place + i * p->columns;
        void *y = (char *)p->y + place * (int64_t)dtype_bytes(p->type);
        if (p->bias) add_row(x, element(p->bias, column, p->bias_type), e->columns, p->bias_type);
        if (p->residual) add_row(x, element(p->residual, place, p->type), e->columns, p->type);
        if (dtype_is_half(p->type))
            half_narrow(p->type, x, e->columns, y);
        else
            memcpy(y, x, (size_t)e->columns * sizeof *x);
    }
}

/* A block's sums of one tile of depth, scaled: onto what is before, with a bias of f32, into rows of y or of
 * a block. What is NULL is not there. */
typedef struct {
    const int32_t *sum;
    const float *a, *b, *bias, *before; /* before may be y */
    void *y;
    int64_t rows, before_stride, stride;
    dtype type; /* of y: f32 or bf16 */
} scaling;

VECTOR_INLINE void scale_rows(const scaling *s, const bool on, const bool biased, const dtype type) {
    const int32_t *sum = s->sum;
    for (int64_t i = 0; i < s->rows; i++, sum += COLUMNS) {
        const float *before = on ? s->before + i * s->before_stride : NULL;
        float *wide = (float *)s->y + i * s->stride, a = s->a[i];
        uint16_t *half = (uint16_t *)s->y + i * s->stride;
#pragma GCC ivdep
        for (int64_t k = 0; k < COLUMNS; k++) {
            float x = (float)sum[k] * (a * s->b[k]);
            if (on) x = before[k] + x;
            if (biased) x = s->bias[k] + x;
            if (type == DTYPE_F32)
                wide[k] = x;
            else
                half[k] = half_to_bf16(x);
        }
    }
}

VECTOR_INLINE void scale_into(const scaling *s, const dtype type) {
    if (s->before && s->bias)
        scale_rows(s, true, true, type);
    else if (s->before)
        scale_rows(s, true, false, type);
    else if (s->bias)
        scale_rows(s, false, true, type);
    else
        scale_rows(s, false, false, type);
}

VECTOR_CLONES static void scale_block(const scaling *s) {
    if (s->type == DTYPE_F32)
        scale_into(s, DTYPE_F32);
    else
        scale_into(s, DTYPE_BF16);
}

/* Can the last sums of a block go straight into y? */
static bool is_plain(const matmul_int8_problem *p, const ending *e) {
    return e->columns == COLUMNS && !p->residual && (p->type == DTYPE_F32 || p->type == DTYPE_BF16) &&
           (!p->bias || p->bias_type == DTYPE_F32);
}

/* What is before a block, of which e->x then holds what does not lie in f32. */
static const float *block_before(const job *j, ending *e, int64_t *stride) {
    const matmul_int8_problem *p = j->p;
    const void *before = j->from ? p->y : p->accumulator;
    if (!over_rows(p) || !before) return NULL;
    *stride = p->columns;
    if (p->type == DTYPE_F32 && e->columns == COLUMNS) return (const float *)before + e->place;
    *stride = COLUMNS;
    memset(e->x, 0, sizeof e->x);
    for (int64_t i = 0; i < e->rows; i++)
        add_row(e->x + i * COLUMNS, element(before, e->place + i * p->columns, p->type), e->columns, p->type);
    return e->x;
}

static const float ones[COLUMNS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                     1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* The tiles of depth of a block, one after the other: (before + tile_0) + tile_1 ... as if each were added to
 * memory. */
static void run_block(const job *j, int64_t row, int64_t column, const matmul_int8_panels *stored_b,
                      int32_t *sum) {
    const matmul_int8_problem *p = j->p;
    ending e = { .rows = least(j->kernel->panels * ROWS, j->rows - row),
                 .columns = least(COLUMNS, p->columns - column) };
    e.place = (j->row + row) * p->columns + column;
    int64_t before_stride = 0;
    const float *before = block_before(j, &e, &before_stride);
    bool plain = is_plain(p, &e);
    for (int64_t t = 0; t < j->tiles; t++) {
        matmul_int8_panels a = panels_of(j, false, t, row),
                           b = stored_b ? *stored_b : panels_of(j, true, t, column);
        scaling s = { sum, a.scales, b.scales, NULL, before, e.x, e.rows, before_stride, COLUMNS, DTYPE_F32 };
        j->kernel->block(a.fours, e.rows, a.words, b.words, b.starts, sum);
        before = e.x, before_stride = COLUMNS;
        if (plain && t + 1 == j->tiles) {
            s.y = (char *)p->y + e.place * (int64_t)dtype_bytes(p->type);
            s.stride = p->columns, s.type = p->type;
            if (p->bias) s.bias = (const float *)p->bias + column;
        }
        scale_block(&s);
    }
    if (plain) return;
    end_block(p, &e, column);
}

/* The panel of b at `column` from its stored codes. */
static matmul_int8_panels stored_panel(const job *j, int64_t column, int thread, float scales[COLUMNS]) {
    const matmul_int8_problem *p = j->p;
    matmul_int8_panels b = panels_at(own(j, thread) + j->l.own_panel, COLUMNS, COLUMNS, j->fours, 0);
    int64_t columns = least(COLUMNS, p->columns - column);
    b.arranged = j->kernel->arrange && !p->b.across;
    matmul_int8_copy_codes(&p->b, column, columns, j->depth, &b);
    arrange(j, &b, 1);
    memcpy(scales, ones, sizeof ones);
    if (p->b.scales) memcpy(scales, p->b.scales + column, (size_t)columns * sizeof *scales);
    b.scales = scales;
    return b;
}

static int64_t row_tiles(const job *j) { return divide_up(j->rows, MATMUL_INT8_TILE_ROWS); }

static void run_tile(void *context, int64_t index, int thread) {
    const job *j = context;
    int64_t column = index / row_tiles(j) * COLUMNS, row = index % row_tiles(j) * MATMUL_INT8_TILE_ROWS;
    int64_t end = least(j->rows, row + MATMUL_INT8_TILE_ROWS);
    int32_t *sum = (void *)(own(j, thread) + j->l.own_sums);
    float scales[COLUMNS];
    matmul_int8_panels b = { 0 };
    if (stored(j->p)) b = stored_panel(j, column, thread, scales);
    if (j->kernel->begin) j->kernel->begin();
    for (; row < end; row += j->kernel->panels * ROWS)
        run_block(j, row, column, stored(j->p) ? &b : NULL, sum);
    if (j->kernel->end) j->kernel->end();
}

/* ---- waves ---- */

static void run_wave(job *j) {
    j->pieces_a = pieces_of(j, false);
    threads_for(j->pieces_a + pieces_of(j, true), prepare_piece, j);
    threads_for(row_tiles(j) * divide_up(j->p->columns, COLUMNS), run_tile, j);
}

void matmul_int8_packed_run(const matmul_int8_problem *p, void *scratch) {
    job j = { .p = p, .kernel = matmul_int8_kernel_chosen(), .scratch = scratch };
    j.l = layout_of(p, threads_count());
    j.b_too = !stored(p);
    if (over_rows(p)) {
        int64_t wave = j.l.tiles * p->tile;
        for (j.rows = p->rows; j.from < p->depth; j.from += wave) {
            j.depth = least(wave, p->depth - j.from);
            j.tiles = divide_up(j.depth, p->tile);
            run_wave(&j);
        }
        return;
    }
    j.depth = p->depth, j.tiles = 1, j.fours = fours_of(j.kernel, p->depth);
    for (; j.row < p->rows; j.row += MATMUL_INT8_WAVE, j.b_too = false) {
        j.rows = least(MATMUL_INT8_WAVE, p->rows - j.row);
        run_wave(&j);
    }
}
