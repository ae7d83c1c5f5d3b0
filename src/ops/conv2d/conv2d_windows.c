#include "ops/conv2d/conv2d_windows.h"

#include <string.h>

#include "base/half.h"
#include "base/least.h"

/* Where a window's first tap is; it may be outside of the image. */
typedef struct {
    const char *image;
    int64_t i, j;
} corner;

/* Neighbours in the depth of a window: numbers of taps that lie side by side. */
typedef struct {
    int64_t tap_row, tap_column, number, count;
    int64_t beyond; /* taps after the first one */
} run;

static const float nothing[MATMUL_DEPTH];

static corner corner_of(const conv2d_windows *w, int64_t place) {
    int64_t image = place / w->columns / w->rows * w->height * w->width * w->all + w->first;
    return (corner){ .image = (const char *)w->data + image * matmul_bytes(w->type),
                     .i = place / w->columns % w->rows * w->step + w->top,
                     .j = place % w->columns * w->step + w->left };
}

static void next_corner(const conv2d_windows *w, corner *c, int64_t place) {
    c->j += w->step;
    if (place % w->columns == 0) *c = corner_of(w, place);
}

/* The run at a depth, of at most `most` numbers. Taps that follow each other are neighbours in memory where a
 * tap has all numbers of a place. */
static run run_at(const conv2d_windows *w, int64_t depth, int64_t most) {
    int64_t tap = depth / w->numbers;
    run r = { tap / w->tap_columns, tap % w->tap_columns, depth % w->numbers, 0, 0 };
    int64_t taps = w->numbers == w->all && w->direction > 0 ? w->tap_columns - r.tap_column : 1;
    r.count = least(taps * w->numbers - r.number, most);
    r.beyond = (r.number + r.count - 1) / w->numbers;
    return r;
}

/* Numbers n of the tap at (i,j), which is inside of the image. */
static const char *at(const conv2d_windows *w, const corner *c, int64_t i, int64_t j, int64_t number) {
    return c->image + ((i * w->width + j) * w->all + number) * matmul_bytes(w->type);
}

/* Where the numbers of a run lie together: in the image, or among zeros; NULL: they don't. */
static const void *together(const conv2d_windows *w, const corner *c, const run *r) {
    int64_t i = c->i + w->direction * r->tap_row, j = c->j + w->direction * r->tap_column;
    int64_t last = j + r->beyond;
    if (i < 0 || i >= w->height || last < 0 || j >= w->width) return nothing;
    return j < 0 || last >= w->width ? NULL : at(w, c, i, j, r->number);
}

/* A run that leaves the image on a side: to `to`, with zeros. */
static void copy_apart(const conv2d_windows *w, const corner *c, const run *r, char *to) {
    int64_t i = c->i + w->direction * r->tap_row, j = c->j + r->tap_column, number = r->number;
    for (int64_t left = r->count, n; left > 0; left -= n, j++, number = 0) {
        n = least(w->numbers - number, left);
        size_t bytes = (size_t)(n * matmul_bytes(w->type));
        if (j < 0 || j >= w->width)
            memset(to, 0, bytes);
        else
            memcpy(to, at(w, c, i, j, number), bytes);
        to += bytes;
    }
}

static void pack_lines(const conv2d_windows *w, const matmul_part *part, int64_t width, float *panel) {
    float room[MATMUL_MAX_ROWS][MATMUL_DEPTH];
    const void *row[MATMUL_MAX_ROWS];
    corner corners[MATMUL_MAX_ROWS];
    for (int64_t i = 0; i < part->lines; i++) corners[i] = corner_of(w, part->line + i);
    run r;
    for (int64_t d = 0; d < part->depths; d += r.count) {
        r = run_at(w, part->depth + d, part->depths - d);
        for (int64_t i = 0; i < part->lines; i++) {
            row[i] = together(w, &corners[i], &r);
            if (row[i]) continue;
            copy_apart(w, &corners[i], &r, (char *)room[i]);
            row[i] = room[i];
        }
        w->kernel->pack_apart(row, part->lines, r.count, width, w->type, panel + d * width);
    }
}

static void lines_to_panels(const void *of, const matmul_part *part, int64_t width, float *packed) {
    matmul_part panel = *part;
    for (int64_t left = part->lines; left > 0; left -= width) {
        panel.lines = least(left, width);
        pack_lines(of, &panel, width, packed);
        panel.line += width;
        packed += width * part->depths;
    }
}

VECTOR_INLINE void widen(const void *from, int64_t n, const dtype type, float *to) {
    const uint16_t *half = from;
    if (type == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++) to[i] = half_from_bf16(half[i]);
    else if (type == DTYPE_F16)
        for (int64_t i = 0; i < n; i++) to[i] = half_from_f16(half[i]);
    else if (n == MATMUL_MAX_COLUMNS)
        memcpy(to, from, MATMUL_MAX_COLUMNS * sizeof(float));
    else
        for (int64_t i = 0; i < n; i++) to[i] = ((const float *)from)[i];
}

VECTOR_INLINE void pack_across(const conv2d_windows *w, const matmul_part *part, int64_t width,
                               const dtype type, float *panel) {
    run runs[MATMUL_MAX_COLUMNS];
    float room[MATMUL_MAX_COLUMNS];
    int count = 0;
    for (int64_t line = 0; line < part->lines; line += runs[count++].count)
        runs[count] = run_at(w, part->line + line, part->lines - line);
    corner c = corner_of(w, part->depth);
    for (int64_t d = 0; d < part->depths; panel += width) {
        float *to = panel;
        for (int k = 0; k < count; to += runs[k++].count) {
            const void *from = together(w, &c, &runs[k]);
            if (!from) copy_apart(w, &c, &runs[k], (char *)room), from = room;
            widen(from, runs[k].count, type, to);
        }
        next_corner(w, &c, part->depth + ++d);
    }
}

#define PACK_ACROSS(name, type)                                                                              \
    VECTOR_CLONES static void name(const conv2d_windows *w, const matmul_part *part, int64_t width,          \
                                   float *panel) {                                                           \
        pack_across(w, part, width, type, panel);                                                            \
    }
PACK_ACROSS(across_f32, DTYPE_F32)
PACK_ACROSS(across_f16, DTYPE_F16)
PACK_ACROSS(across_bf16, DTYPE_BF16)

static void across_to_panels(const void *of, const matmul_part *part, int64_t width, float *packed) {
    const conv2d_windows *w = of;
    matmul_part panel = *part;
    for (int64_t left = part->lines; left > 0; left -= width) {
        panel.lines = least(left, width);
        (w->type == DTYPE_F32   ? across_f32
         : w->type == DTYPE_F16 ? across_f16
                                : across_bf16)(w, &panel, width, packed);
        panel.line += width;
        packed += width * part->depths;
    }
}

/* ---- bf16 as it is ---- */

/* Runs are short where images have few channels: then calls of memcpy would take longer than the product. */
VECTOR_INLINE void copy_numbers(uint16_t *to, const uint16_t *from, int64_t n) {
    enum { MANY = 32, SOME = 8 };
    if (n < SOME)
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
    else if (n > MANY)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i += SOME) {
            int64_t at = i + SOME <= n ? i : n - SOME; /* the last ones overlap */
            memcpy(to + at, from + at, SOME * sizeof *to);
        }
}

VECTOR_INLINE void copy_run(const conv2d_windows *w, const corner *c, const run *r, uint16_t *to) {
    const void *from = together(w, c, r);
    if (from)
        copy_numbers(to, from, r->count);
    else
        copy_apart(w, c, r, (char *)to);
}

static void lines_to_rows(const void *of, const matmul_part *part, uint16_t *rows) {
    const conv2d_windows *w = of;
    corner corners[MATMUL_PAIRS_ROWS];
    for (int64_t i = 0; i < part->lines; i++) corners[i] = corner_of(w, part->line + i);
    run r;
    for (int64_t d = 0; d < part->depths; d += r.count) {
        r = run_at(w, part->depth + d, part->depths - d);
        for (int64_t i = 0; i < part->lines; i++) copy_run(w, &corners[i], &r, rows + i * MATMUL_DEPTH + d);
    }
}

static void across_to_rows(const void *of, const matmul_part *part, uint16_t *rows) {
    const conv2d_windows *w = of;
    run runs[MATMUL_MAX_COLUMNS];
    int count = 0;
    for (int64_t line = 0; line < part->lines; line += runs[count++].count)
        runs[count] = run_at(w, part->line + line, part->lines - line);
    corner c = corner_of(w, part->depth);
    for (int64_t d = 0; d < part->depths; rows += MATMUL_MAX_COLUMNS) {
        uint16_t *to = rows;
        for (int k = 0; k < count; to += runs[k++].count) copy_run(w, &c, &runs[k], to);
        next_corner(w, &c, part->depth + ++d);
    }
}

const matmul_gather conv2d_windows_lines = { lines_to_panels, lines_to_rows };
const matmul_gather conv2d_windows_across = { across_to_panels, across_to_rows };

/* ---- which windows ---- */

conv2d_windows conv2d_windows_of_y(const conv2d_sizes *n, const op_arg *x) {
    return (conv2d_windows){ .kernel = matmul_kernel_chosen(),
                             .data = x->data,
                             .type = (dtype)x->dtype,
                             .height = n->height,
                             .width = n->width,
                             .all = n->all_channels,
                             .first = n->group * n->channels,
                             .numbers = n->channels,
                             .rows = n->rows,
                             .columns = n->columns,
                             .step = n->stride,
                             .top = -n->padding,
                             .left = -n->padding,
                             .tap_rows = n->kernel_height,
                             .tap_columns = n->kernel_width,
                             .direction = 1 };
}

/* Numbers first, first + step ... below end. */
static int64_t steps(int64_t first, int64_t end, int64_t step) {
    return first < end ? (end - first + step - 1) / step : 0;
}

conv2d_phase conv2d_phase_of(const conv2d_sizes *n, const op_arg *dy, int64_t down, int64_t right) {
    int64_t s = n->stride, u = (down + n->padding) % s, v = (right + n->padding) % s;
    return (conv2d_phase){ .n = *n,
                           .down = down,
                           .right = right,
                           .u = u,
                           .v = v,
                           .see = { .kernel = matmul_kernel_chosen(),
                                    .data = dy->data,
                                    .type = (dtype)dy->dtype,
                                    .height = n->rows,
                                    .width = n->columns,
                                    .all = n->all_outputs,
                                    .first = n->group * n->outputs,
                                    .numbers = n->outputs,
                                    .rows = steps(down, n->height, s),
                                    .columns = steps(right, n->width, s),
                                    .step = 1,
                                    .top = (down + n->padding - u) / s,
                                    .left = (right + n->padding - v) / s,
                                    .tap_rows = steps(u, n->kernel_height, s),
                                    .tap_columns = steps(v, n->kernel_width, s),
                                    .direction = -1 } };
}

int64_t conv2d_phase_place(const void *of, int64_t row, int64_t *rows) {
    const conv2d_phase *p = of;
    const conv2d_sizes *n = &p->n;
    int64_t j = row % p->see.columns, i = row / p->see.columns % p->see.rows,
            b = row / p->see.columns / p->see.rows;
    *rows = p->see.columns - j;
    return ((b * n->height + i * n->stride + p->down) * n->width + j * n->stride + p->right) *
               n->all_channels +
           n->group * n->channels;
}

/* Of the kernel's taps that this kind of place doesn't see, nothing is added. */
int64_t conv2d_phase_depths(const void *of, int64_t depth) {
    const conv2d_phase *p = of;
    int64_t numbers = p->n.outputs, taps = p->see.tap_rows * p->see.tap_columns, tap = depth / numbers;
    int64_t number = depth % numbers, end = 0, count = 0;
    for (; tap < taps; tap++, number = 0) {
        int64_t u = p->u + tap / p->see.tap_columns * p->n.stride,
                v = p->v + tap % p->see.tap_columns * p->n.stride;
        int64_t here = (u * p->n.kernel_width + v) * numbers + number; /* in the longer depth */
        if (!end) end = (here / MATMUL_DEPTH + 1) * MATMUL_DEPTH;
        if (here >= end) break;
        count += least(numbers - number, end - here);
    }
    return count;
}
