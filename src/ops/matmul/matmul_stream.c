#include "ops/matmul/matmul_stream.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/least.h"
#include "ops/matmul/matmul_epilogue.h"
#include "ops/vector_math.h"

enum {
    PANEL = MATMUL_MAX_COLUMNS,
    MAX_COLUMNS = 1024,     /* of a range of up to MAX_COLUMNS_ROWS rows, of more in proportion fewer: */
    MAX_COLUMNS_ROWS = 16,  /* bounds the scratch, and sums stay in the second cache */
    MOST_SEQUENTIAL = 8192, /* columns of a b that is read from end to end: their sums stay in a cache */
    MOST_SUMS = 1 << 18     /* of all slices and rows together */
};

bool matmul_may_stream(const matmul_problem *p) {
    return p->rows <= MATMUL_STREAM_ROWS && !p->a.across && !p->a.gather && !p->b.gather && !p->apart;
}

int64_t matmul_stream_width(int64_t rows) {
    static const int64_t widths[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, MATMUL_STREAM_ROWS };
    int i = 0;
    while (widths[i] < rows) i++;
    return widths[i];
}

/* ---- scratch, in floats; every part aligned to 64 bytes ---- */

typedef struct {
    int64_t rest; /* what is shared: a at 0, and what the columns take that make no panel */
    int64_t rest_sum;
    int64_t slices;     /* sums of slices; 0: it does not go by slices */
    int64_t halfway;    /* of the slice that two threads share */
    int64_t own, total; /* where the threads' parts begin, and how long one is */
} layout;

static int64_t align_floats(int64_t n) { return (n + 15) & ~(int64_t)15; }

/* The longest range. */
static int64_t range_most(const matmul_problem *p) {
    int64_t sums = MAX_COLUMNS * MAX_COLUMNS_ROWS,
            rows = most(MAX_COLUMNS_ROWS, matmul_stream_width(p->rows));
    return least(sums / rows / PANEL * PANEL, divide_up(p->columns, PANEL) * PANEL);
}

/* Even shares of the threads, and some of them, so that who is held up has less to do. */
static int64_t range_of(const matmul_problem *p, int threads) {
    int64_t panels = divide_up(p->columns, PANEL), ranges = divide_up(panels, range_most(p) / PANEL);
    while (ranges % threads != 0 && ranges < 6 * threads) ranges++;
    return least(range_most(p), divide_up(panels, ranges) * PANEL);
}

/* Codes take longer to widen than to come, and their scales begin with the matrix. */
static bool goes_by_slices(const matmul_problem *p) {
    bool wide = p->b.type == DTYPE_F32 || dtype_is_half(p->b.type);
    int64_t slices = divide_up(p->depth, MATMUL_DEPTH);
    return wide && slices > 1 && p->b.across && p->columns % PANEL == 0 && p->b.stride == p->columns &&
           p->columns <= MOST_SEQUENTIAL && slices * p->columns * p->rows <= MOST_SUMS;
}

static layout layout_of(const matmul_problem *p) {
    int64_t width = matmul_stream_width(p->rows),
            depth = divide_up(p->depth, MATMUL_PAIRS_FILL) * MATMUL_PAIRS_FILL;
    bool any_rest = p->columns % PANEL != 0;
    layout l = { .rest = align_floats(width * depth) };
    l.rest_sum = l.rest + (any_rest ? PANEL * MATMUL_DEPTH : 0);
    l.own = l.rest_sum + (any_rest ? align_floats(width * PANEL) : 0);
    l.total = 2 * width * range_most(p);
    if (!goes_by_slices(p)) return l;
    l.slices = l.own;
    l.halfway = l.slices + divide_up(p->depth, MATMUL_DEPTH) * width * p->columns;
    l.own = l.halfway + width * p->columns;
    l.total = most(l.total, width * p->columns);
    return l;
}

uint64_t matmul_stream_scratch(const matmul_problem *p, int threads) {
    layout l = layout_of(p);
    return (uint64_t)(l.own + l.total * threads) * sizeof(float);
}

/* ---- ranges of columns ---- */

typedef struct {
    const matmul_problem *p;
    const matmul_kernel *kernel;
    int64_t width;           /* rows of a strip */
    int64_t columns, ranges; /* of a range; ranges that there are, without the rest */
    layout layout;
    const void *a; /* as pack_few has it */
    float *scratch;
} job;

/* Where a number of b lies. */
static const char *stored_at(const matmul_operand *o, int64_t line, int64_t depth) {
    int64_t place = o->across ? depth * o->stride + line : line * o->stride + depth;
    return (const char *)o->data + matmul_stored_bytes(o->type, place);
}

/* Of a row-slice that begins at this depth: numbers of f32, or as many of bf16 in words. */
static const void *a_at(const job *j, int64_t depth) {
    return (const char *)j->a + depth * j->width * (int64_t)dtype_bytes(j->kernel->type);
}

static void end_columns(const job *j, const float *sum, int64_t stride, int64_t first, int64_t columns) {
    const matmul_problem *p = j->p;
    int64_t n = p->stride ? p->stride : p->columns;
    matmul_epilogue e = { .sum = sum,
                          .sum_stride = stride,
                          .rows = p->rows,
                          .columns = columns,
                          .out = (char *)p->y + first * matmul_bytes(p->type),
                          .out_stride = n,
                          .residual_stride = n,
                          .type = p->type,
                          .bias_type = p->bias_type,
                          .gelu = p->gelu };
    if (p->bias) e.bias = matmul_element(p->bias, first, p->bias_type);
    if (p->residual) e.residual = matmul_element(p->residual, first, p->type);
    if (p->x) e.x = matmul_element(p->x, first, p->type);
    matmul_epilogue_run(&e);
}

static void run_range(const job *j, int64_t index, float *own) {
    const matmul_problem *p = j->p;
    int64_t first = index * j->columns, whole = p->columns / PANEL * PANEL;
    int64_t next = (index + threads_count()) * j->columns; /* this thread likely gets it next */
    matmul_strip s = { .rows = j->width,
                       .columns = least(j->columns, whole - first),
                       .depth = p->depth,
                       .line = first,
                       .a = j->a,
                       .b = &p->b,
                       .after = next < whole ? stored_at(&p->b, next, 0) : NULL,
                       .sum = own,
                       .work = own + j->width * range_most(p) };
    j->kernel->stream(&s);
    end_columns(j, s.sum, s.columns, first, s.columns);
}

/* ---- the columns behind the last whole panel ---- */

/* Some depths of them, at most MATMUL_DEPTH, as a panel of their own: in front of memory that is not b's. */
static matmul_operand copy_rest(const matmul_operand *o, const matmul_part *part, float *panel) {
    if (matmul_is_coded(o)) return matmul_widen(o, part, panel);
    int64_t bytes = matmul_bytes(o->type), runs = o->across ? part->depths : part->lines;
    int64_t stride = o->across ? PANEL : MATMUL_DEPTH, run = o->across ? part->lines : part->depths;
    for (int64_t i = 0; i < runs; i++)
        memcpy((char *)panel + i * stride * bytes,
               stored_at(o, part->line + (o->across ? 0 : i), part->depth + (o->across ? i : 0)),
               (size_t)(run * bytes));
    return (matmul_operand){ .data = panel, .stride = stride, .across = o->across, .type = o->type };
}

static void run_rest(const job *j, float *own) {
    const matmul_problem *p = j->p;
    int64_t first = p->columns / PANEL * PANEL, rest = p->columns - first;
    float *sum = j->scratch + j->layout.rest_sum;
    matmul_operand b;
    matmul_strip s = {
        .rows = j->width, .columns = PANEL, .b = &b, .sum = own, .work = own + j->width * range_most(p)
    };
    for (int64_t from = 0; from < p->depth; from += MATMUL_DEPTH) {
        s.depth = least(MATMUL_DEPTH, p->depth - from), s.a = a_at(j, from);
        b = copy_rest(&p->b, &(matmul_part){ first, rest, from, s.depth }, j->scratch + j->layout.rest);
        j->kernel->stream(&s);
        for (int64_t i = 0; i < j->width * PANEL; i++) sum[i] = from ? sum[i] + s.sum[i] : s.sum[i];
    }
    end_columns(j, sum, PANEL, first, rest);
}

static void run_piece(void *context, int64_t index, int thread) {
    const job *j = context;
    float *own = j->scratch + j->layout.own + thread * j->layout.total;
    if (index < j->ranges)
        run_range(j, index, own);
    else
        run_rest(j, own);
}

/* ---- the product ---- */

/* One row of f32 is what pack_few would make of it. */
static const void *pack_rows(const job *j) {
    const matmul_problem *p = j->p;
    if (j->width == 1 && p->a.type == DTYPE_F32 && j->kernel->type == DTYPE_F32) return p->a.data;
    for (int64_t from = 0; from < p->depth; from += MATMUL_DEPTH) {
        matmul_operand a = matmul_operand_at(&p->a, 0, from);
        j->kernel->pack_few(&a, p->rows, least(MATMUL_DEPTH, p->depth - from), j->width,
                            (char *)j->scratch + from * j->width * (int64_t)dtype_bytes(j->kernel->type));
    }
    return j->scratch;
}

/* ---- slice by slice ---- */

/* Slices are shared out whole as far as they go. Where one is left over and there are two threads, its second
 * half goes on from the sums of its first, which is the first piece of all; so both read as much, and on and
 * on. Else it is shared by columns. */
typedef struct {
    const job *job;
    float *sums; /* [slice][row][column]; of a slice that is shared by columns [part][row][column] */
    float *halfway;
    int64_t count, whole; /* slices; those of one thread each */
    int64_t parts;        /* by columns, of each of the others; 0: two halves */
    atomic_bool half_done;
} slices;

static float *sums_of(const slices *k, int64_t slice, int64_t first) {
    return k->sums + (slice * k->job->p->columns + first) * k->job->width;
}

/* One row may be read from end to end, with nothing asked for: AMD's processors then look far enough ahead by
 * themselves. An Intel does not. One thread of a Xeon (family 6, model 207) so reads f32 at 0.73 of memory's
 * speed and bf16 at 0.63, and at 0.92 where some depths at once are walked and the next ones asked for. */
static bool may_read_on(void) {
#if defined(__x86_64__)
    return !__builtin_cpu_is("intel");
#else
    return true;
#endif
}

/* Depths `from` .. `end` of a slice, of all columns or some. */
static matmul_strip strip_of(const slices *k, matmul_operand *b, int64_t slice, int64_t from, int thread) {
    const job *j = k->job;
    int64_t depth = slice * MATMUL_DEPTH + from;
    *b = matmul_operand_at(&j->p->b, 0, depth);
    return (matmul_strip){ .rows = j->width,
                           .columns = j->p->columns,
                           .depth = least(MATMUL_DEPTH, j->p->depth - slice * MATMUL_DEPTH) - from,
                           .sequential = j->width == 1 && j->kernel->type == DTYPE_F32 && may_read_on(),
                           .a = a_at(j, depth),
                           .b = b,
                           .sum = sums_of(k, slice, 0),
                           .work = j->scratch + j->layout.own + thread * j->layout.total };
}

static void run_half(slices *k, bool second, int thread) {
    matmul_operand b;
    matmul_strip s = strip_of(k, &b, k->whole, second ? MATMUL_DEPTH / 2 : 0, thread);
    s.work = k->halfway, s.begun = second, s.unfinished = !second;
    if (!second) s.depth = MATMUL_DEPTH / 2;
    while (second && !atomic_load_explicit(&k->half_done, memory_order_acquire)) {}
    k->job->kernel->stream(&s);
    if (!second) atomic_store_explicit(&k->half_done, true, memory_order_release);
}

static int64_t column_of(const slices *k, int64_t part) {
    return k->job->p->columns / PANEL * part / k->parts * PANEL;
}

static void run_part(const slices *k, int64_t index, int thread) {
    matmul_operand b;
    int64_t slice = k->whole + index / k->parts, part = index % k->parts, first = column_of(k, part);
    matmul_strip s = strip_of(k, &b, slice, 0, thread);
    s.line = first, s.columns = column_of(k, part + 1) - first, s.sequential = false;
    s.sum = sums_of(k, slice, first);
    if (s.columns) k->job->kernel->stream(&s);
}

static void run_slice(void *context, int64_t index, int thread) {
    slices *k = context;
    bool halves = !k->parts && k->whole < k->count;
    if (halves && (index == 0 || index > k->whole)) {
        run_half(k, index > 0, thread);
    } else if (index - halves >= k->whole) {
        run_part(k, index - k->whole, thread);
    } else {
        matmul_operand b;
        matmul_strip s = strip_of(k, &b, index - halves, 0, thread);
        k->job->kernel->stream(&s);
    }
}

VECTOR_CLONES static void add_sums(const float *x, int64_t n, float *restrict sum) {
    for (int64_t i = 0; i < n; i++) sum[i] = sum[i] + x[i];
}

/* A slice to those before it, in `all`: (rows, columns). */
static void add_slice(const slices *k, int64_t slice, float *all) {
    const matmul_problem *p = k->job->p;
    bool parted = k->parts && slice >= k->whole;
    for (int64_t part = 0; part < (parted ? k->parts : 1); part++) {
        int64_t first = parted ? column_of(k, part) : 0,
                n = parted ? column_of(k, part + 1) - first : p->columns;
        for (int64_t row = 0; row < p->rows; row++) {
            const float *from = sums_of(k, slice, first) + row * n;
            float *to = all + row * p->columns + first;
            if (slice == 0)
                memcpy(to, from, (size_t)n * sizeof *to);
            else
                add_sums(from, n, to);
        }
    }
}

static void run_slices(const job *j) {
    const matmul_problem *p = j->p;
    int threads = threads_count();
    int64_t count = divide_up(p->depth, MATMUL_DEPTH), whole = count / threads * threads;
    bool halves = threads == 2 && whole && whole < count && p->depth % MATMUL_DEPTH == 0;
    slices k = { .job = j,
                 .sums = j->scratch + j->layout.slices,
                 .halfway = j->scratch + j->layout.halfway,
                 .count = count,
                 .whole = whole,
                 .parts = halves ? 0 : threads };
    threads_for(halves ? count + 1 : whole + (count - whole) * threads, run_slice, &k);
    for (int64_t i = 0; i < count; i++) add_slice(&k, i, k.halfway); /* which has served */
    end_columns(j, k.halfway, p->columns, 0, p->columns);
}

void matmul_stream_run(const matmul_problem *p, const matmul_kernel *kernel, void *scratch) {
    job j = { .p = p,
              .kernel = kernel,
              .width = matmul_stream_width(p->rows),
              .layout = layout_of(p),
              .scratch = scratch };
    int64_t whole = p->columns / PANEL * PANEL;
    j.columns = range_of(p, threads_count());
    j.ranges = divide_up(whole, j.columns);
    j.a = pack_rows(&j);
    if (j.layout.slices) {
        run_slices(&j);
        return;
    }
    threads_for(j.ranges + (whole < p->columns), run_piece, &j);
}
