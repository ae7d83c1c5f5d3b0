#include "ops/expert_matmul/expert_matmul.h"
#include "ops/fast.h"
#include "ops/matmul/matmul_kernel.h"
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

/* ---- products of each expert's rows, which lie one after the other (ops/matmul) ---- */

static const void *place_in(const op_arg *x, int64_t element) {
    return x->data ? (const char *)x->data + element * matmul_bytes((dtype)x->dtype) : NULL;
}

static matmul_operand operand_of(const op_arg *x, int64_t element, int64_t stride, bool across) {
    return (matmul_operand){
        .data = place_in(x, element), .stride = stride, .across = across, .type = (dtype)x->dtype
    };
}

static matmul_problem product_of_y(const op_call *c, int64_t expert, int64_t first, int64_t last) {
    const op_arg *x = op_in(c, 0), *w = op_in(c, 1), *y = &c->out[0];
    bool tb = ((const expert_matmul_attributes *)c->attributes)->tb != 0;
    int64_t depth = x->shape.dim[1], columns = y->shape.dim[1];
    return (matmul_problem){ .rows = last - first,
                             .columns = columns,
                             .depth = depth,
                             .a = operand_of(x, first * depth, depth, false),
                             .b = operand_of(w, expert * depth * columns, tb ? depth : columns, !tb),
                             .y = (void *)place_in(y, first * columns),
                             .type = (dtype)y->dtype };
}

static uint64_t packed_scratch(const op_call *c, int threads) {
    matmul_problem p = product_of_y(c, 0, 0, op_in(c, 0)->shape.dim[0]);
    return matmul_packed_scratch_most(&p, threads);
}

static void packed_run(const op_call *c) {
    const op_arg *ends = op_in(c, 2);
    int64_t rows = op_in(c, 0)->shape.dim[0], columns = c->out[0].shape.dim[1], first = 0;
    for (int64_t e = 0, last; e < ends->shape.dim[0]; e++, first = last) {
        last = last_of(ends, e, first, rows);
        matmul_problem p = product_of_y(c, e, first, last);
        if (first < last) matmul_packed_run(&p, c->scratch);
    }
    memset((void *)place_in(&c->out[0], first * columns), 0,
           (size_t)((rows - first) * columns * matmul_bytes((dtype)c->out[0].dtype)));
}

/* Of the weights: an expert's rows are the depth. */
static matmul_problem product_of_dw(const op_call *c, int64_t expert, int64_t first, int64_t last) {
    const op_arg *a = op_in(c, 0), *b = op_in(c, 1), *dw = &c->out[0];
    int64_t rows = a->shape.dim[1], columns = b->shape.dim[1], at = expert * rows * columns;
    return (matmul_problem){ .rows = rows,
                             .columns = columns,
                             .depth = last - first,
                             .a = operand_of(a, first * rows, rows, true),
                             .b = operand_of(b, first * columns, columns, true),
                             .accumulator = place_in(op_in(c, 3), at),
                             .y = (void *)place_in(dw, at),
                             .type = (dtype)dw->dtype };
}

static uint64_t weights_packed_scratch(const op_call *c, int threads) {
    matmul_problem p = product_of_dw(c, 0, 0, op_in(c, 0)->shape.dim[0]);
    return matmul_packed_scratch(&p, false, threads);
}

static void weights_packed_run(const op_call *c) {
    const op_arg *ends = op_in(c, 2);
    int64_t rows = op_in(c, 0)->shape.dim[0], first = 0;
    for (int64_t e = 0, last; e < ends->shape.dim[0]; e++, first = last) {
        last = last_of(ends, e, first, rows);
        matmul_problem p = product_of_dw(c, e, first, last);
        size_t bytes = (size_t)(p.rows * p.columns * matmul_bytes(p.type));
        if (first < last)
            matmul_packed_run(&p, c->scratch);
        else if (!p.accumulator)
            memset(p.y, 0, bytes);
        else if (p.accumulator != p.y)
            memcpy(p.y, p.accumulator, bytes);
    }
}

double expert_matmul_moved(const expert_sizes *s) {
    matmul_problem p = { .rows = s->rows, .columns = s->columns, .depth = s->depth };
    return (double)s->experts * matmul_packed_moved(&p);
}

const op_kernel expert_matmul_cpu[] = { { "expert_matmul_cpu_packed", fast_accepts_halves, packed_scratch,
                                          packed_run },
                                        { "expert_matmul_reference", NULL, NULL, expert_matmul_reference },
                                        { 0 } };
const op_kernel expert_matmul_weights_cpu[] = {
    { "expert_matmul_weights_cpu_packed", fast_accepts_halves, weights_packed_scratch, weights_packed_run },
    { "expert_matmul_weights_reference", NULL, NULL, expert_matmul_weights_reference },
    { 0 }
};
