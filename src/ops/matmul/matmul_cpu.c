#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/reference.h"

/* ---- packed ---- */

static bool packed_accepts(const op_call *c) { return dtype_wide(c->out[0].dtype) == DTYPE_F32; }

static matmul_operand operand_of(const op_arg *x, bool across) {
    return (matmul_operand){
        .data = x->data, .stride = shape_last(&x->shape), .across = across, .type = x->dtype
    };
}

matmul_problem matmul_problem_of(const op_call *c, const matmul_attributes *t) {
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    matmul_sizes s;
    matmul_sizes_of(&a->shape, &b->shape, t, &s);
    return (matmul_problem){ .rows = s.rows,
                             .columns = s.columns,
                             .depth = s.depth,
                             .a = operand_of(a, t->ta != 0),
                             .b = operand_of(b, t->tb == 0),
                             .y = c->out[0].data,
                             .type = c->out[0].dtype };
}

static matmul_problem problem_of(const op_call *c) {
    matmul_problem p = matmul_problem_of(c, c->attributes);
    p.bias = op_in(c, MATMUL_BIAS)->data;
    p.bias_type = op_in(c, MATMUL_BIAS)->dtype;
    p.residual = op_in(c, MATMUL_RESIDUAL)->data;
    p.accumulator = op_in(c, MATMUL_ACCUMULATOR)->data;
    return p;
}

static uint64_t packed_scratch(const op_call *c, int threads) {
    matmul_problem p = problem_of(c);
    return matmul_packed_scratch(&p, op_in(c, MATMUL_RESIDUAL)->dtype != DTYPE_NONE, threads);
}

static void packed_run(const op_call *c) {
    matmul_problem p = problem_of(c);
    matmul_packed_run(&p, c->scratch);
}

/* ---- reference ---- */

double matmul_reference_sum(const op_call *c, const matmul_attributes *t, const matmul_sizes *s, int64_t row,
                            int64_t column) {
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    double sum = 0;
    for (int64_t k = 0; k < s->depth; k++)
        sum += reference_get(a, t->ta ? k * s->rows + row : row * s->depth + k) *
               reference_get(b, t->tb ? column * s->depth + k : k * s->columns + column);
    return sum;
}

static void matmul_reference(const op_call *c) {
    const op_arg *bias = op_in(c, MATMUL_BIAS), *residual = op_in(c, MATMUL_RESIDUAL);
    const op_arg *accumulator = op_in(c, MATMUL_ACCUMULATOR);
    matmul_sizes s;
    matmul_sizes_of(&op_in(c, MATMUL_A)->shape, &op_in(c, MATMUL_B)->shape, c->attributes, &s);
    for (int64_t row = 0; row < s.rows; row++)
        for (int64_t column = 0; column < s.columns; column++) {
            int64_t at = row * s.columns + column;
            double value = matmul_reference_sum(c, c->attributes, &s, row, column);
            if (accumulator->data) value += reference_get(accumulator, at);
            if (bias->data) value += reference_get(bias, column);
            if (residual->data) value += reference_get(residual, at);
            reference_set(&c->out[0], at, value);
        }
}

const op_kernel matmul_cpu[] = { { "matmul_packed", packed_accepts, packed_scratch, packed_run },
                                 { "matmul_reference", NULL, NULL, matmul_reference },
                                 { 0 } };
