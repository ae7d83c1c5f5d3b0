#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/nf4.h"
#include "ops/reference.h"

static shape matrix_of(const op_call *c) {
    const op_arg *codes = op_in(c, MATMUL_CODED_CODES);
    return matmul_coded_shape(codes->dtype, &codes->shape);
}

/* ---- packed ---- */

static bool packed_accepts(const op_call *c) {
    return dtype_wide(c->out[0].dtype) == DTYPE_F32 && op_in(c, MATMUL_CODED_SCALES)->dtype == DTYPE_F32;
}

static matmul_problem problem_of(const op_call *c) {
    const matmul_coded_attributes *t = c->attributes;
    const op_arg *x = op_in(c, MATMUL_CODED_X), *codes = op_in(c, MATMUL_CODED_CODES);
    shape w = matrix_of(c);
    return (matmul_problem){ .rows = shape_rows(&x->shape),
                             .columns = w.dim[t->tb ? 0 : 1],
                             .depth = w.dim[t->tb ? 1 : 0],
                             .a = { .data = x->data, .stride = shape_last(&x->shape), .type = x->dtype },
                             .b = { .data = codes->data,
                                    .scales = op_in(c, MATMUL_CODED_SCALES)->data,
                                    .by_rows = t->rows != 0,
                                    .stride = w.dim[1],
                                    .across = t->tb == 0,
                                    .type = codes->dtype },
                             .y = c->out[0].data,
                             .type = c->out[0].dtype,
                             .bias = op_in(c, MATMUL_CODED_BIAS)->data,
                             .bias_type = op_in(c, MATMUL_CODED_BIAS)->dtype,
                             .residual = op_in(c, MATMUL_CODED_RESIDUAL)->data };
}

static uint64_t packed_scratch(const op_call *c, int threads) {
    matmul_problem p = problem_of(c);
    return matmul_packed_scratch(&p, op_in(c, MATMUL_CODED_RESIDUAL)->dtype != DTYPE_NONE, threads);
}

static void packed_run(const op_call *c) {
    matmul_problem p = problem_of(c);
    matmul_packed_run(&p, c->scratch);
}

/* ---- reference ---- */

/* What an element of the matrix is, in f32 as the codes have it. */
static double element(const op_call *c, const shape *w, int64_t row, int64_t column) {
    const matmul_coded_attributes *t = c->attributes;
    const op_arg *codes = op_in(c, MATMUL_CODED_CODES), *scales = op_in(c, MATMUL_CODED_SCALES);
    if (codes->dtype == DTYPE_I8) {
        float code = (float)((const int8_t *)codes->data)[row * w->dim[1] + column];
        return (double)(code * (float)reference_get(scales, t->rows ? row : column));
    }
    int byte = ((const uint8_t *)codes->data)[(row * w->dim[1] + column) / 2];
    float value = nf4_value[column % 2 ? byte >> 4 : byte & 15];
    int64_t block = row * nf4_blocks(w->dim[1]) + column / NF4_BLOCK;
    return (double)(value * (float)reference_get(scales, block));
}

static void matmul_coded_reference(const op_call *c) {
    const matmul_coded_attributes *t = c->attributes;
    const op_arg *x = op_in(c, MATMUL_CODED_X), *bias = op_in(c, MATMUL_CODED_BIAS),
                 *residual = op_in(c, MATMUL_CODED_RESIDUAL);
    shape w = matrix_of(c);
    int64_t rows = shape_rows(&x->shape), depth = shape_last(&x->shape), columns = w.dim[t->tb ? 0 : 1];
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += reference_get(x, row * depth + k) *
                       (t->tb ? element(c, &w, column, k) : element(c, &w, k, column));
            if (bias->data) sum += reference_get(bias, column);
            if (residual->data) sum += reference_get(residual, row * columns + column);
            reference_set(&c->out[0], row * columns + column, sum);
        }
}

const op_kernel matmul_coded_cpu[] = { { "matmul_coded_packed", packed_accepts, packed_scratch, packed_run },
                                       { "matmul_coded_reference", NULL, NULL, matmul_coded_reference },
                                       { 0 } };
