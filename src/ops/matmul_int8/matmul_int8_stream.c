/* The product of few rows with stored codes, as generating has it: the codes are read once, where they lie,
 * and no panels are made of them. The same codes of a, the same sums of integers and the same steps to floats
 * as in matmul_int8_packed.c, so the same bits. */
#include <string.h>

#include "base/least.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"

enum {
    ROWS = MATMUL_INT8_STREAM_ROWS,
    PANEL = 64,     /* what vectors take: ranges are multiples of it, what is left goes in plain C */
    USUAL = 512,    /* columns of a range at most */
    LINE = 128,     /* columns that become floats at a time */
    FAR = 64 << 10, /* bytes that are asked for ahead where b's rows run along the depth */
    AHEAD = 32      /* and depths where they run along the columns */
};

static int64_t align(int64_t n) { return (n + 63) & ~(int64_t)63; }

typedef struct {
    const matmul_int8_problem *p;
    const matmul_int8_kernel *kernel;
    int8_t *codes;       /* of a, [row][stride]; what follows a row is 0 */
    const float *scales; /* of a, by row */
    const int32_t *sums; /* of a's codes, by row */
    int64_t stride, columns, ranges;
    char *own; /* of all threads: [row][USUAL] sums each */
} job;

static int64_t own_bytes(const matmul_int8_problem *p) {
    return p->rows * least(align(p->columns), USUAL) * (int64_t)sizeof(int32_t);
}

/* Columns of a range: even shares of the threads, and some of them where there is much. */
static int64_t range_of(int64_t whole, int threads) {
    int64_t panels = most(1, whole / PANEL), ranges = divide_up(panels, USUAL / PANEL);
    while (ranges % threads != 0 && ranges < 6 * threads) ranges++;
    return divide_up(panels, ranges) * PANEL;
}

uint64_t matmul_int8_stream_scratch(const matmul_int8_problem *p, int threads) {
    int64_t floats = dtype_is_half(p->a.type) ? align(p->depth * (int64_t)sizeof(float)) : 0;
    return (uint64_t)(ROWS * align(p->depth) + floats + own_bytes(p) * threads);
}

/* ---- sums in plain C ---- */

VECTOR_CLONES static void add_row(const int8_t *b, int32_t a, int64_t n, int32_t *restrict sum) {
    for (int64_t i = 0; i < n; i++) sum[i] += a * b[i];
}

VECTOR_CLONES static int32_t add_along(const int8_t *b, const int8_t *a, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (int32_t)a[i] * (int32_t)b[i];
    return sum;
}

void matmul_int8_stream_portable(const matmul_int8_strip *s) {
    for (int64_t i = 0; i < s->rows; i++) {
        const int8_t *a = s->a + i * s->stride_a;
        int32_t *sum = s->sum + i * s->columns;
        for (int64_t j = 0; !s->across && j < s->columns; j++)
            sum[j] = add_along(s->b + j * s->stride, a, s->depth);
        if (!s->across) continue;
        memset(sum, 0, (size_t)s->columns * sizeof *sum);
        for (int64_t d = 0; d < s->depth; d++) add_row(s->b + d * s->stride, a[d], s->columns, sum);
    }
}

/* ---- y ---- */

VECTOR_CLONES static void scale_row(const int32_t *sum, float a, const float *b, int64_t n,
                                    float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)sum[i] * (a * b[i]);
}

VECTOR_CLONES static void add_floats(const float *x, int64_t n, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + y[i];
}

/* y += numbers of any type from `place` on. */
static void add_stored(const void *from, int64_t place, int64_t n, dtype type, float *y) {
    float wide[LINE];
    if (dtype_is_half(type)) half_widen(type, (const uint16_t *)from + place, n, wide);
    add_floats(dtype_is_half(type) ? wide : (const float *)from + place, n, y);
}

static void end_row(const job *j, const int32_t *sum, int64_t row, int64_t first, int64_t columns) {
    const matmul_int8_problem *p = j->p;
    for (int64_t at = 0; at < columns; at += LINE) {
        int64_t n = least(LINE, columns - at), column = first + at, place = row * p->columns + column;
        float x[LINE];
        scale_row(sum + at, j->scales[row], p->b.scales + column, n, x);
        if (p->bias) add_stored(p->bias, column, n, p->bias_type, x);
        if (p->residual) add_stored(p->residual, place, n, p->type, x);
        if (dtype_is_half(p->type))
            half_narrow(p->type, x, n, (uint16_t *)p->y + place);
        else
            memcpy((float *)p->y + place, x, (size_t)n * sizeof *x);
    }
}

static void run_range(void *context, int64_t piece, int thread) {
    const job *j = context;
    const matmul_int8_problem *p = j->p;
    bool rest = piece == j->ranges, across = p->b.across;
    int64_t whole = p->columns / PANEL * PANEL, first = rest ? whole : piece * j->columns;
    int64_t stride = p->b.stride;
    matmul_int8_strip s = { .rows = p->rows,
                            .columns = rest ? p->columns - whole : least(j->columns, whole - first),
                            .depth = p->depth,
                            .b = (const int8_t *)p->b.data + (across ? first : first * stride),
                            .stride = stride,
                            .across = across,
                            .ahead = AHEAD,
                            .ahead_lines = FAR / stride + 4,
                            .a = j->codes,
                            .stride_a = j->stride,
                            .sums_of_a = j->sums,
                            .sum = (int32_t *)(void *)(j->own + thread * own_bytes(p)) };
    (rest ? matmul_int8_stream_portable : j->kernel->stream)(&s);
    for (int64_t row = 0; row < p->rows; row++) end_row(j, s.sum + row * s.columns, row, first, s.columns);
}

/* ---- codes of a ---- */

VECTOR_CLONES static int32_t sum_of(const int8_t *codes, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += codes[i];
    return sum;
}

void matmul_int8_stream_run(const matmul_int8_problem *p, void *scratch) {
    int64_t stride = align(p->depth), whole = p->columns / PANEL * PANEL;
    bool half = dtype_is_half(p->a.type);
    float scales[ROWS], *wide = (float *)(void *)((int8_t *)scratch + ROWS * stride);
    int32_t sums[ROWS];
    job j = { .p = p,
              .kernel = matmul_int8_kernel_chosen(),
              .codes = scratch,
              .scales = scales,
              .sums = sums,
              .stride = stride,
              .own = (char *)wide + (half ? align(p->depth * (int64_t)sizeof(float)) : 0) };
    for (int64_t row = 0; row < p->rows; row++) {
        const char *from = (const char *)p->a.data + row * p->a.stride * (int64_t)dtype_bytes(p->a.type);
        const float *x = half ? wide : (const float *)(const void *)from;
        if (half) half_widen(p->a.type, (const void *)from, p->depth, wide);
        scales[row] = matmul_int8_scale(&p->a, codes_largest(x, p->depth));
        codes_encode(x, codes_inverse(scales[row]), NULL, p->depth, j.codes + row * stride);
        memset(j.codes + row * stride + p->depth, 0, (size_t)(stride - p->depth));
        sums[row] = sum_of(j.codes + row * stride, p->depth);
    }
    j.columns = range_of(whole, threads_count()), j.ranges = divide_up(whole, j.columns);
    threads_for(j.ranges + (whole < p->columns), run_range, &j);
}
