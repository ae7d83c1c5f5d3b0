/* Codes as the numbers that they stand for, as many as one panel takes: a matrix of codes is never in f32 as
 * a whole. */
#include "ops/matmul/matmul_kernel.h"
#include "ops/nf4.h"
#include "ops/vector_math.h"

VECTOR_CLONES static void decode_by_columns(const int8_t *codes, const float *scales, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)codes[i] * scales[i];
}

VECTOR_CLONES static void decode_by_row(const int8_t *codes, float scale, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)codes[i] * scale;
}

/* Numbers first .. first + n - 1 of a row of the matrix as it lies. */
static void widen_run(const matmul_operand *o, int64_t row, int64_t first, int64_t n, float *x) {
    const int8_t *bytes = (const int8_t *)o->data + row * o->stride + first;
    if (o->type == DTYPE_I8 && o->by_rows)
        decode_by_row(bytes, o->scales[row], n, x);
    else if (o->type == DTYPE_I8)
        decode_by_columns(bytes, o->scales + first, n, x);
    else
        nf4_decode((const uint8_t *)o->data + row * o->stride / 2, o->scales + row * nf4_blocks(o->stride),
                   first, n, x);
}

matmul_operand matmul_widen(const matmul_operand *o, const matmul_part *p, float *wide) {
    if (o->across)
        for (int64_t k = 0; k < p->depths; k++)
            widen_run(o, p->depth + k, p->line, p->lines, wide + k * MATMUL_MAX_COLUMNS);
    else
        for (int64_t i = 0; i < p->lines; i++)
            widen_run(o, p->line + i, p->depth, p->depths, wide + i * MATMUL_DEPTH);
    return (matmul_operand){ .data = wide,
                             .stride = o->across ? MATMUL_MAX_COLUMNS : MATMUL_DEPTH,
                             .across = o->across,
                             .type = DTYPE_F32 };
}
