/* The loops around the micro-kernel: how the output is cut into tiles, and what a thread does with a tile.
 * Few rows go another way (matmul_stream.h). */
#include <stddef.h>
#include <string.h>

#include "base/least.h"
#include "ops/matmul/matmul_epilogue.h"
#include "ops/matmul/matmul_stream.h"

/* ---- how the output is cut ---- */

enum {
    MAX_TILE_ROWS = 512,       /* of packed a: 512 KiB, half of a second cache of 1 MiB */
    MAX_TILE_COLUMNS = 1024,   /* a is packed once for so many columns */
    MAX_PARTIAL_COLUMNS = 512, /* the same where partial sums are kept in scratch: bounds the scratch */
    LEAST_TILE = 64,           /* smaller tiles would spend most of their time on packing */
    ENOUGH_TILES = 16,         /* no more tiles are made only to have one for each thread */
    EVEN_ENOUGH = 6            /* with so many tiles a thread, an uneven share no longer matters */
};

typedef struct {
    int64_t rows, columns; /* of a tile */
    int64_t row_tiles, column_tiles;
} tiling;

/* Are partial sums kept in scratch between slices of the depth? They can't be in y where y may be the
 * residual, which is still to be read, or where its type is too narrow for an f32. */
static bool keeps_partials(const matmul_problem *p, bool residual) {
    return residual || dtype_is_half(p->type) || p->apart;
}

static int64_t stride_of(const matmul_problem *p) { return p->stride ? p->stride : p->columns; }

/* Of the slice that begins at this depth; 0 at the end. */
static int64_t slice_depths(const matmul_problem *p, int64_t depth) {
    if (depth < p->depth && p->apart) return p->apart->depths(p->apart->of, depth);
    return least(p->depth - depth, MATMUL_DEPTH);
}

/* Tiles of about equal size; their columns are whole panels. */
static tiling tiling_into(const matmul_problem *p, int64_t row_tiles, int64_t column_tiles) {
    tiling c = { .rows = divide_up(p->rows, row_tiles) };
    c.columns = divide_up(divide_up(p->columns, column_tiles), MATMUL_MAX_COLUMNS) * MATMUL_MAX_COLUMNS;
    c.row_tiles = divide_up(p->rows, c.rows);
    c.column_tiles = divide_up(p->columns, c.columns);
    return c;
}

/* The smallest n, from `fewest` on, such that n * each tiles share out evenly among the threads, or are so
 * many that it does not matter. */
static int64_t dealt_out(int64_t fewest, int64_t each, int64_t threads) {
    int64_t n = fewest;
    while (n * each < EVEN_ENOUGH * threads && n * each % threads != 0) n++;
    return n;
}

/* The cut with the most tiles, up to one for each thread; among these the one that packs least. The bits of y
 * do not depend on it. */
static tiling tiling_of(const matmul_problem *p, bool partials, int threads) {
    int64_t enough = least(threads, ENOUGH_TILES);
    int64_t widest = partials ? MAX_PARTIAL_COLUMNS : MAX_TILE_COLUMNS;
    int64_t least_columns = divide_up(p->columns, widest), most_columns = divide_up(p->columns, LEAST_TILE);
    int64_t least_rows = divide_up(p->rows, MAX_TILE_ROWS);
    int64_t most_rows = most(least_rows, least(divide_up(p->rows, LEAST_TILE), least_rows + enough - 1));
    int64_t best_tiles = 0, best_packed = 0;
    tiling best = { 0 };
    for (int64_t rows = least_rows; rows <= most_rows; rows++) {
        tiling c = tiling_into(
            p, rows, most(least_columns, least(most_columns, dealt_out(least_columns, rows, enough))));
        int64_t tiles = least(c.row_tiles * c.column_tiles, enough);
        int64_t packed =
            c.row_tiles * p->columns + c.column_tiles * p->rows; /* how often b and a are packed as a whole */
        if (tiles < best_tiles || (tiles == best_tiles && packed >= best_packed)) continue;
        best = c, best_tiles = tiles, best_packed = packed;
    }
    return best;
}

/* ---- scratch: per thread, in floats, every part aligned to 64 bytes ---- */

typedef struct {
    int64_t b, sum, partial, wide, total; /* where the parts begin (a at 0), and the end */
} layout;

static int64_t align_floats(int64_t n) { return (n + 15) & ~(int64_t)15; }

static bool in_pairs(const matmul_problem *p) { return matmul_in_pairs(p->a.type, p->b.type); }

/* Panels of pairs are filled up further and take half as much: what widened ones need is enough. So a plan
 * does not depend on the micro-kernel. */
static layout layout_of(const matmul_problem *p, const tiling *c, bool partials) {
    bool pairs = in_pairs(p);
    int64_t fill = pairs ? MATMUL_PAIRS_FILL : 1,
            depth = divide_up(least(p->depth, MATMUL_DEPTH), fill) * fill;
    int64_t block_rows = pairs ? MATMUL_PAIRS_ROWS : MATMUL_MAX_ROWS;
    int64_t rows = least(p->rows, c->rows), columns = least(p->columns, c->columns);
    layout l = { .b = align_floats((rows + MATMUL_MAX_ROWS) * depth) };
    l.sum = l.b + MATMUL_MAX_COLUMNS * depth;
    l.partial = l.sum + align_floats(block_rows * MATMUL_MAX_COLUMNS);
    l.wide =
        l.partial + (partials && (p->depth > MATMUL_DEPTH || p->apart) ? align_floats(rows * columns) : 0);
    l.total = l.wide + (matmul_is_coded(&p->b) ? MATMUL_MAX_COLUMNS * MATMUL_DEPTH : 0);
    return l;
}

/* A run may have fewer threads than planned, and is tiled otherwise then: the most over all such numbers. Few
 * rows may come either way: kernels have no stream for some types, and data pointers are not known here. */
uint64_t matmul_packed_scratch(const matmul_problem *p, bool residual, int threads) {
    uint64_t most_bytes = matmul_may_stream(p) ? matmul_stream_scratch(p, threads) : 0;
    for (int n = 1; n <= threads; n++) {
        if (n >= ENOUGH_TILES) n = threads; /* the cut is the same from here */
        tiling c = tiling_of(p, keeps_partials(p, residual), n);
        uint64_t bytes =
            (uint64_t)layout_of(p, &c, keeps_partials(p, residual)).total * sizeof(float) * (uint64_t)n;
        if (bytes > most_bytes) most_bytes = bytes;
    }
    return most_bytes;
}

uint64_t matmul_packed_scratch_most(const matmul_problem *p, int threads) {
    bool partials = keeps_partials(p, false);
    uint64_t streamed = 0;
    int64_t few[] = { 1, least(p->rows, MATMUL_STREAM_ROWS) }; /* one row goes a way of its own */
    for (int i = 0; i < 2; i++) {
        matmul_problem some = *p;
        some.rows = few[i];
        uint64_t bytes = matmul_may_stream(&some) ? matmul_stream_scratch(&some, threads) : 0;
        if (bytes > streamed) streamed = bytes;
    }
    tiling c = { .rows = least(p->rows, MAX_TILE_ROWS),
                 .columns = partials ? MAX_PARTIAL_COLUMNS : MAX_TILE_COLUMNS };
    uint64_t packed = (uint64_t)layout_of(p, &c, partials).total * sizeof(float) * (uint64_t)threads;
    return packed > streamed ? packed : streamed;
}

/* ---- prefetching what is packed next, while a panel is computed ---- */

/* A part of an operand, as a series of prefetches (matmul_prefetch) for the micro-kernel to issue. */
typedef struct {
    const char *data;
    int64_t stride; /* in bytes, between runs */
    int64_t groups; /* of MATMUL_PREFETCH_TIMES runs */
    int64_t pairs;  /* of cache lines in a run */
    int64_t next;
} ahead;

enum { PAIR = 128 }; /* bytes in two cache lines */

static ahead ahead_begin(const matmul_operand *o, int64_t line, int64_t depth, int64_t lines,
                         int64_t depths) {
    if (o->gather) return (ahead){ 0 };
    matmul_operand at = matmul_operand_at(o, line, depth);
    return (ahead){ .data = (const char *)at.data,
                    .stride = o->stride * matmul_bytes(o->type),
                    .groups = divide_up(o->across ? depths : lines, MATMUL_PREFETCH_TIMES),
                    .pairs = divide_up((o->across ? lines : depths) * matmul_bytes(o->type), PAIR) };
}

/* The next prefetch; when there are none left, one of something that is in the cache already. */
static matmul_prefetch ahead_next(ahead *a, const void *at_hand) {
    if (a->next >= a->groups * a->pairs) return (matmul_prefetch){ at_hand, 0 };
    int64_t group = a->next % a->groups, pair = a->next / a->groups;
    a->next++;
    return (matmul_prefetch){ a->data + group * MATMUL_PREFETCH_TIMES * a->stride + pair * PAIR, a->stride };
}

/* ---- a tile ---- */

typedef struct {
    const matmul_problem *p;
    const matmul_kernel *kernel;
    int64_t per_word; /* numbers in four bytes of a panel */
    tiling tiling;
    layout layout;
    float *scratch;
} job;

/* Where a thread is: a tile of y, and the slice of the depth that it sums there next. */
typedef struct {
    int64_t row, column, rows, columns, depth, depths;
} slice;

typedef struct {
    const job *job;
    float *a, *b, *sum, *wide;
    slice here, after;   /* after: of this tile, else of the one that it likely gets next */
    matmul_epilogue end; /* of the tile at this slice */
} tile;

/* Tiles go down the rows first: threads that work side by side share columns of b, the larger operand. */
static slice first_slice(const job *j, int64_t index) {
    const matmul_problem *p = j->p;
    if (index >= j->tiling.row_tiles * j->tiling.column_tiles) return (slice){ 0 };
    slice s = { .row = index % j->tiling.row_tiles * j->tiling.rows,
                .column = index / j->tiling.row_tiles * j->tiling.columns,
                .depths = slice_depths(p, 0) };
    s.rows = least(p->rows - s.row, j->tiling.rows);
    s.columns = least(p->columns - s.column, j->tiling.columns);
    return s;
}

/* The next part of the depth, or the first one of the tile that this thread is likely to get next. */
static slice slice_after(const job *j, const slice *s, int64_t index) {
    slice next = *s;
    next.depth += s->depths;
    next.depths = slice_depths(j->p, next.depth);
    return next.depths > 0 ? next : first_slice(j, index + threads_count());
}

/* Where the sums of this slice go: after the last part of the depth into y; before that into y as well, or
 * into scratch where y can't hold them (keeps_partials). */
static matmul_epilogue epilogue_of(const job *j, const slice *s, float *partial) {
    const matmul_problem *p = j->p;
    bool first = s->depth == 0, last = s->depth + s->depths == p->depth,
         partials = keeps_partials(p, p->residual != NULL);
    int64_t n = stride_of(p), place = s->row * n + s->column;
    void *y = (char *)p->y + place * matmul_bytes(p->type), *between = partials ? partial : y;
    int64_t between_stride = partials ? s->columns : n;
    matmul_epilogue e = { .out = last ? y : between,
                          .out_stride = last ? n : between_stride,
                          .type = last ? p->type : DTYPE_F32,
                          .before_type = first ? p->type : DTYPE_F32 };
    if (!first)
        e.before = between, e.before_stride = between_stride;
    else if (p->accumulator)
        e.before = matmul_element(p->accumulator, place, p->type), e.before_stride = n;
    if (last && p->bias)
        e.bias = matmul_element(p->bias, s->column, p->bias_type), e.bias_type = p->bias_type;
    if (last && p->residual) e.residual = matmul_element(p->residual, place, p->type), e.residual_stride = n;
    if (last) e.gelu = p->gelu, e.x = p->x ? matmul_element(p->x, place, p->type) : NULL;
    return e;
}

/* The same for the block of the tile at this row and column. */
static matmul_epilogue epilogue_at(const tile *t, int64_t row, int64_t column, int64_t rows, int64_t columns,
                                   int64_t stride) {
    matmul_epilogue e = t->end;
    e.sum = t->sum, e.sum_stride = stride, e.rows = rows, e.columns = columns;
    e.out = (char *)e.out + (row * e.out_stride + column) * matmul_bytes(e.type);
    if (e.before) e.before = matmul_element(e.before, row * e.before_stride + column, e.before_type);
    if (e.residual) e.residual = matmul_element(e.residual, row * e.residual_stride + column, e.type);
    if (e.bias) e.bias = matmul_element(e.bias, column, e.bias_type);
    if (e.x) e.x = matmul_element(e.x, row * e.out_stride + column, e.type);
    return e;
}

/* The panel of b that comes after the one at `column`. */
static ahead b_after(const tile *t, int64_t column) {
    const slice *s = &t->here;
    int64_t width = t->job->kernel->columns;
    column += width;
    if (column >= s->columns) s = &t->after, column = 0;
    if (s->rows == 0 || matmul_is_coded(&t->job->p->b)) return (ahead){ 0 };
    return ahead_begin(&t->job->p->b, s->column + column, s->depth, least(s->columns - column, width),
                       s->depths);
}

/* The part of a that the next slice packs. */
static ahead a_after(const tile *t) {
    const slice *s = &t->after;
    if (s->rows == 0) return (ahead){ 0 };
    return ahead_begin(&t->job->p->a, s->row, s->depth, s->rows, s->depths);
}

/* What is gathered of bf16 comes into panels by way of rows, which lie as any other operand does. */
static void pack_gathered(const tile *t, const matmul_operand *o, const matmul_part *part, int64_t width,
                          matmul_pack *pack, float *to) {
    const matmul_kernel *k = t->job->kernel;
    uint16_t rows[MATMUL_GATHERED];
    matmul_operand at = { .data = rows,
                          .stride = o->across ? MATMUL_MAX_COLUMNS : MATMUL_DEPTH,
                          .across = o->across,
                          .type = o->type };
    matmul_part panel = *part;
    for (int64_t left = part->lines; left > 0; left -= width) {
        panel.lines = least(left, width);
        o->gather->rows(o->data, &panel, rows);
        pack(&at, panel.lines, part->depths, width, to);
        panel.line += width;
        to += divide_up(part->depths, k->fill) * k->fill / t->job->per_word * width;
    }
}

/* Part of an operand into panels. */
static void pack_part(const tile *t, const matmul_operand *o, const matmul_part *part, int64_t width,
                      float *to) {
    const matmul_kernel *k = t->job->kernel;
    matmul_pack *pack = o == &t->job->p->a ? k->pack_a : k->pack_b;
    if (o->gather && k->type == DTYPE_BF16) {
        pack_gathered(t, o, part, width, pack, to);
        return;
    }
    if (o->gather) {
        o->gather->panels(o->data, part, width, to);
        return;
    }
    matmul_operand at =
        matmul_is_coded(o) ? matmul_widen(o, part, t->wide) : matmul_operand_at(o, part->line, part->depth);
    pack(&at, part->lines, part->depths, width, to);
}

/* A block whose rows have places of their own, from row `row` of y. */
static void store_apart(const tile *t, const matmul_epilogue *block, int64_t row, int64_t column) {
    const matmul_problem *p = t->job->p;
    matmul_epilogue e = *block;
    for (int64_t left = block->rows; left > 0; left -= e.rows) {
        int64_t together = 0, place = p->apart->place(p->apart->of, row, &together);
        e.rows = least(left, together);
        e.out = (char *)p->y + (place + column) * matmul_bytes(p->type);
        matmul_epilogue_run(&e);
        e.sum += e.rows * e.sum_stride, row += e.rows;
        if (e.before) e.before = matmul_element(e.before, e.rows * e.before_stride, e.before_type);
    }
}

/* One panel of b against all rows of the tile. */
static void run_panel(const tile *t, int64_t column, ahead *next_a) {
    const matmul_problem *p = t->job->p;
    const matmul_kernel *k = t->job->kernel;
    const slice *s = &t->here;
    int64_t depths = divide_up(s->depths, k->fill) * k->fill, words = depths / t->job->per_word;
    int64_t columns = least(s->columns - column, k->columns);
    bool apart = p->apart && s->depth + s->depths == p->depth;
    pack_part(t, &p->b, &(matmul_part){ s->column + column, columns, s->depth, s->depths }, k->columns, t->b);
    ahead next_b = b_after(t, column);
    for (int64_t row = 0; row < s->rows; row += k->rows) {
        int64_t rows = least(s->rows - row, k->rows);
        matmul_epilogue e = epilogue_at(t, row, column, rows, columns, k->columns);
        const char *y = e.x && !e.before ? e.x : e.out; /* what the epilogue reads */
        matmul_prefetch ask[MATMUL_ASKS] = { { y, e.out_stride * matmul_bytes(e.type) },
                                             ahead_next(next_a, t->sum),
                                             ahead_next(&next_b, t->sum) };
        k->block(depths, rows, t->a + row * words, t->b, t->sum, ask);
        if (apart)
            store_apart(t, &e, s->row + row, s->column + column);
        else
            matmul_epilogue_run(&e);
    }
}

static void run_slice(const tile *t) {
    const matmul_kernel *k = t->job->kernel;
    const slice *s = &t->here;
    pack_part(t, &t->job->p->a, &(matmul_part){ s->row, s->rows, s->depth, s->depths }, k->rows, t->a);
    ahead next = a_after(t);
    for (int64_t column = 0; column < s->columns; column += k->columns) run_panel(t, column, &next);
}

static void run_tile(void *context, int64_t index, int thread) {
    const job *j = context;
    float *scratch = j->scratch + thread * j->layout.total;
    tile t = { .job = j,
               .a = scratch,
               .b = scratch + j->layout.b,
               .sum = scratch + j->layout.sum,
               .wide = scratch + j->layout.wide };
    bool more = true;
    if (j->kernel->begin) j->kernel->begin();
    for (t.here = first_slice(j, index); more; t.here = t.after) {
        t.after = slice_after(j, &t.here, index);
        t.end = epilogue_of(j, &t.here, scratch + j->layout.partial);
        more = t.after.depth > 0;
        run_slice(&t);
    }
    if (j->kernel->end) j->kernel->end();
}

static const matmul_kernel *kernel_for(const matmul_problem *p) {
    const matmul_kernel *pairs = in_pairs(p) ? matmul_kernel_chosen_pairs() : NULL;
    return pairs ? pairs : matmul_kernel_chosen();
}

void matmul_packed_run(const matmul_problem *p, void *scratch) {
    job j = { .p = p, .kernel = kernel_for(p), .scratch = scratch };
    if (matmul_may_stream(p) && !p->accumulator && j.kernel->streams && j.kernel->streams(p->b.type)) {
        matmul_stream_run(p, j.kernel, scratch);
        return;
    }
    j.per_word = 4 / (int64_t)dtype_bytes(j.kernel->type);
    bool partials = keeps_partials(p, p->residual != NULL);
    j.tiling = tiling_of(p, partials, threads_count());
    j.layout = layout_of(p, &j.tiling, partials);
    threads_for(j.tiling.row_tiles * j.tiling.column_tiles, run_tile, &j);
}

double matmul_packed_moved(const matmul_problem *p) {
    tiling c = tiling_of(p, keeps_partials(p, false), 2);
    double rows = (double)p->rows, columns = (double)p->columns, depth = (double)p->depth;
    double slices = (double)divide_up(p->depth, MATMUL_DEPTH);
    double a = rows * depth * (double)c.column_tiles, b = columns * depth * (double)c.row_tiles;
    return (double)sizeof(float) * (a + (matmul_may_stream(p) ? 0 : b) + 2 * rows * columns * slices);
}
