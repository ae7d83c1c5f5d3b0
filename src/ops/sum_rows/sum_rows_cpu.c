#include "base/half.h"
#include "ops/reference.h"
#include "ops/row_tiles.h"
#include "ops/sum_rows/sum_rows.h"
#include "ops/vector_math.h"

/* ---- fast ---- */

static bool tiled_accepts(const op_call *c) { return c->out[0].dtype == DTYPE_F32; }

VECTOR_CLONES static void add_rows(const float *x, int64_t rows, int64_t width, float *sums) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++) sums[i] += x[r * width + i];
}

VECTOR_CLONES static void add_bf16_rows(const uint16_t *x, int64_t rows, int64_t width, float *sums) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++) sums[i] += half_from_bf16(x[r * width + i]);
}

/* By way of f32, as the instructions that convert f16 are in half_widen. */
static void add_f16_rows(const uint16_t *x, int64_t rows, int64_t width, float *sums) {
    enum { SOME = 1024 };
    float part[SOME];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i += SOME) {
            int64_t n = width - i < SOME ? width - i : SOME;
            half_widen(DTYPE_F16, x + r * width + i, n, part);
            add_rows(part, 1, n, sums + i);
        }
}

static void body(const op_call *c, int64_t first, int64_t last, float *sums, int thread) {
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape);
    (void)thread;
    if (x->dtype == DTYPE_BF16)
        add_bf16_rows((const uint16_t *)x->data + first * width, last - first, width, sums);
    else if (x->dtype == DTYPE_F16)
        add_f16_rows((const uint16_t *)x->data + first * width, last - first, width, sums);
    else
        add_rows((const float *)x->data + first * width, last - first, width, sums);
}

static uint64_t tiled_scratch(const op_call *c, int threads) {
    (void)threads;
    const shape *s = &op_in(c, 0)->shape;
    return row_tiles_scratch(shape_rows(s), shape_last(s), 1);
}

static void tiled_run(const op_call *c) {
    const shape *s = &op_in(c, 0)->shape;
    row_tiles_run(&(row_tiles){ .call = c,
                                .rows = shape_rows(s),
                                .width = shape_last(s),
                                .count = 1,
                                .sum = { { op_in(c, 1)->data, c->out[0].data } },
                                .body = body });
}

/* ---- reference ---- */

static void sum_rows_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *accumulator = op_in(c, 1);
    int64_t rows = shape_rows(&x->shape), width = shape_last(&x->shape);
    for (int64_t i = 0; i < width; i++) {
        double sum = accumulator->data ? reference_get(accumulator, i) : 0;
        for (int64_t r = 0; r < rows; r++) sum += reference_get(x, r * width + i);
        reference_set(&c->out[0], i, sum);
    }
}

const op_kernel sum_rows_cpu[] = { { "sum_rows_tiled", tiled_accepts, tiled_scratch, tiled_run },
                                   { "sum_rows_reference", NULL, NULL, sum_rows_reference },
                                   { 0 } };
