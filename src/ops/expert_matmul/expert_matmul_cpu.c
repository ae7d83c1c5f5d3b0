#include "ops/expert_matmul/expert_matmul.h"
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

const op_kernel expert_matmul_cpu[] = { { "expert_matmul_reference", NULL, NULL, expert_matmul_reference },
                                        { 0 } };
const op_kernel expert_matmul_weights_cpu[] = {
    { "expert_matmul_weights_reference", NULL, NULL, expert_matmul_weights_reference }, { 0 }
};
