#include "ops/expert_matmul/expert_matmul.h"
#include "ops/fast.h"
#include "ops/ordered_product.h"
#include "ops/reference.h"

/* Rows of expert e: first .. *last - 1, given where those of the one before it ended. */
static int64_t last_of(const op_arg *ends, int64_t e, int64_t first, int64_t rows) {
    int64_t end = ((const int32_t *)ends->data)[e];
    return end < first ? first : end > rows ? rows : end;
}

static void multiply_row(const op_call *c, int64_t row, int64_t expert) {
    const op_arg *x = op_in(c, 0), *w = op_in(c, 1);
    bool tb = ((const expert_matmul_attributes *)c->attributes)->tb != 0;
    int64_t depth = x->shape.dim[1], columns = c->out[0].shape.dim[1];
    for (int64_t m = 0; m < columns; m++) {
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += reference_get(x, row * depth + k) *
                   reference_get(w, expert * depth * columns + (tb ? m * depth + k : k * columns + m));
        reference_set(&c->out[0], row * columns + m, sum);
    }
}

static void expert_matmul_reference(const op_call *c) {
    const op_arg *ends = op_in(c, 2);
    int64_t rows = op_in(c, 0)->shape.dim[0], columns = c->out[0].shape.dim[1], first = 0;
    for (int64_t e = 0; e < ends->shape.dim[0]; e++) {
        int64_t last = last_of(ends, e, first, rows);
        for (; first < last; first++) multiply_row(c, first, e);
    }
    for (int64_t i = first * columns; i < rows * columns; i++) reference_set(&c->out[0], i, 0);
}

static void expert_matmul_weights_reference(const op_call *c) {
    const op_arg *a = op_in(c, 0), *b = op_in(c, 1), *ends = op_in(c, 2), *before = op_in(c, 3);
    int64_t rows = a->shape.dim[0], m = a->shape.dim[1], k = b->shape.dim[1], first = 0;
    for (int64_t e = 0; e < ends->shape.dim[0]; e++) {
        int64_t last = last_of(ends, e, first, rows);
        for (int64_t i = 0; i < m * k; i++) {
            double sum = before->data ? reference_get(before, e * m * k + i) : 0;
            for (int64_t r = first; r < last; r++)
                sum += reference_get(a, r * m + i / k) * reference_get(b, r * k + i % k);
            reference_set(&c->out[0], e * m * k + i, sum);
        }
        first = last;
    }
}

/* ---- in the order of the plain product ---- */

typedef struct {
    const op_call *call;
    int64_t experts, rows, columns, depth; /* rows: of all experts */
    bool tb;
} products;

/* Rows of an expert; those of nobody come after all of them. */
typedef struct {
    int64_t first, last;
} range;

static range rows_of(const products *p, int64_t expert) {
    range r = { 0, 0 };
    for (int64_t e = 0; e <= expert; e++) {
        r.first = r.last;
        r.last = e < p->experts ? last_of(op_in(p->call, 2), e, r.first, p->rows) : p->rows;
    }
    return r;
}

static void extent(const void *of, int64_t expert, ordered_extent *n) {
    const products *p = of;
    range r = rows_of(p, expert);
    n->rows = r.last - r.first;
    if (expert == p->experts) n->depth = 0; /* nobody's rows are 0 */
}

static void row_of_x(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    int64_t first = (rows_of(p, at->group).first + at->row) * p->depth + at->depth;
    const float *x = fast_floats(op_in(p->call, 0), first, at->depths, to);
    if (x != to) memcpy(to, x, (size_t)at->depths * sizeof *to);
}

static void part_of_w(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    const op_arg *w = op_in(p->call, 1);
    int64_t by_depth = p->tb ? 1 : p->columns, by_column = p->tb ? p->depth : 1;
    int64_t first = at->group * p->depth * p->columns + at->depth * by_depth + at->column * by_column;
    for (int64_t d = 0; d < at->depths; d++)
        for (int64_t j = 0; j < at->columns; j++)
            to[d * ORDERED_COLUMNS + j] = (float)reference_get(w, first + d * by_depth + j * by_column);
}

static void store_y(const void *of, const ordered_block *at, const float *sum) {
    const products *p = of;
    int64_t row = rows_of(p, at->group).first + at->row;
    fast_floats_store(&p->call->out[0], row * p->columns + at->column, at->columns, sum);
}

static void expert_matmul_ordered(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    products p = { c,
                   op_in(c, 2)->shape.dim[0],
                   x->shape.dim[0],
                   c->out[0].shape.dim[1],
                   x->shape.dim[1],
                   ((const expert_matmul_attributes *)c->attributes)->tb != 0 };
    ordered_product_run(&(ordered_product){ .call = c,
                                            .of = &p,
                                            .n = { p.rows, p.columns, p.depth },
                                            .groups = p.experts + 1,
                                            .extent = extent,
                                            .a = row_of_x,
                                            .b = part_of_w,
                                            .end = store_y });
}

/* Of the weights: a product has an expert's rows as its depth, `rows` and `columns` are those of the weight.
 */
static void weights_extent(const void *of, int64_t expert, ordered_extent *n) {
    range r = rows_of(of, expert);
    n->depth = r.last - r.first;
}

static void column_of_a(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    const op_arg *a = op_in(p->call, 0);
    int64_t width = a->shape.dim[1], first = rows_of(p, at->group).first + at->depth;
    for (int64_t d = 0; d < at->depths; d++) to[d] = (float)reference_get(a, (first + d) * width + at->row);
}

static void part_of_b(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    const op_arg *b = op_in(p->call, 1);
    int64_t first = rows_of(p, at->group).first + at->depth;
    for (int64_t d = 0; d < at->depths; d++) {
        const float *row = fast_floats(b, (first + d) * p->columns + at->column, at->columns, to);
        if (row != to) memcpy(to, row, (size_t)at->columns * sizeof *to);
        to += ORDERED_COLUMNS;
    }
}

static int64_t weight_at(const products *p, const ordered_block *at) {
    return (at->group * op_in(p->call, 0)->shape.dim[1] + at->row) * p->columns + at->column;
}

static void begin_weights(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    const op_arg *before = op_in(p->call, 3);
    for (int64_t j = 0; before->data && j < at->columns; j++)
        to[j] = (float)reference_get(before, weight_at(p, at) + j);
}

static void store_weights(const void *of, const ordered_block *at, const float *sum) {
    const products *p = of;
    fast_floats_store(&p->call->out[0], weight_at(p, at), at->columns, sum);
}

static void expert_matmul_weights_ordered(const op_call *c) {
    const op_arg *a = op_in(c, 0), *b = op_in(c, 1);
    products p = { c, op_in(c, 2)->shape.dim[0], a->shape.dim[0], b->shape.dim[1], 0, false };
    ordered_product_run(&(ordered_product){ .call = c,
                                            .of = &p,
                                            .n = { a->shape.dim[1], p.columns, p.rows },
                                            .groups = p.experts,
                                            .extent = weights_extent,
                                            .a = column_of_a,
                                            .b = part_of_b,
                                            .begin = begin_weights,
                                            .end = store_weights });
}

const op_kernel expert_matmul_cpu[] = { { "expert_matmul_cpu_ordered", fast_accepts_halves,
                                          ordered_product_scratch, expert_matmul_ordered },
                                        { "expert_matmul_reference", NULL, NULL, expert_matmul_reference },
                                        { 0 } };
const op_kernel expert_matmul_weights_cpu[] = { { "expert_matmul_weights_cpu_ordered", fast_accepts_halves,
                                                  ordered_product_scratch, expert_matmul_weights_ordered },
                                                { "expert_matmul_weights_reference", NULL, NULL,
                                                  expert_matmul_weights_reference },
                                                { 0 } };
