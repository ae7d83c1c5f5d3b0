#include "ops/gelu/gelu_math.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul_gelu/matmul_gelu.h"
#include "ops/reference.h"

/* ---- packed ---- */

static bool packed_accepts(const op_call *c) { return dtype_wide(c->out[0].dtype) == DTYPE_F32; }

static matmul_problem problem_of(const op_call *c) {
    const matmul_gelu_attributes *t = c->attributes;
    matmul_problem p = matmul_problem_of(c, &t->product);
    p.gelu = t->tanh ? MATMUL_GELU_TANH : MATMUL_GELU_ERF;
    return p;
}

static uint64_t packed_scratch(const op_call *c, int threads) {
    matmul_problem p = problem_of(c);
    return matmul_packed_scratch(&p, false, threads);
}

static void packed_run(const op_call *c) {
    matmul_problem p = problem_of(c);
    p.bias = op_in(c, MATMUL_GELU_BIAS)->data;
    p.bias_type = op_in(c, MATMUL_GELU_BIAS)->dtype;
    matmul_packed_run(&p, c->scratch);
}

static void packed_backward_run(const op_call *c) {
    matmul_problem p = problem_of(c);
    p.x = op_in(c, MATMUL_GELU_X)->data;
    matmul_packed_run(&p, c->scratch);
}

/* ---- reference ---- */

/* What a product of its own would have stored, where that has 16 bits. */
static double stored(const op_arg *y, double sum) {
    if (y->dtype == DTYPE_BF16) return (double)half_from_bf16(half_to_bf16((float)sum));
    if (y->dtype == DTYPE_F16) return (double)half_from_f16(half_to_f16((float)sum));
    return sum;
}

typedef double ended(const op_call *c, int64_t at, int64_t column, double sum);

static double with_gelu(const op_call *c, int64_t at, int64_t column, double sum) {
    (void)at;
    const matmul_gelu_attributes *t = c->attributes;
    const op_arg *bias = op_in(c, MATMUL_GELU_BIAS);
    if (bias->data) sum += reference_get(bias, column);
    sum = stored(&c->out[0], sum);
    return t->tanh ? gelu_tanh(sum) : gelu_erf(sum);
}

static double with_slope(const op_call *c, int64_t at, int64_t column, double sum) {
    (void)column;
    const matmul_gelu_attributes *t = c->attributes;
    double x = reference_get(op_in(c, MATMUL_GELU_X), at);
    return stored(&c->out[0], sum) * (t->tanh ? gelu_tanh_slope(x) : gelu_erf_slope(x));
}

static void run_reference(const op_call *c, ended *end) {
    const matmul_gelu_attributes *t = c->attributes;
    matmul_sizes s;
    matmul_sizes_of(&op_in(c, MATMUL_A)->shape, &op_in(c, MATMUL_B)->shape, &t->product, &s);
    for (int64_t row = 0; row < s.rows; row++)
        for (int64_t column = 0; column < s.columns; column++) {
            int64_t at = row * s.columns + column;
            double sum = matmul_reference_sum(c, &t->product, &s, row, column);
            reference_set(&c->out[0], at, end(c, at, column, sum));
        }
}

static void reference_run(const op_call *c) { run_reference(c, with_gelu); }
static void reference_backward_run(const op_call *c) { run_reference(c, with_slope); }

const op_kernel matmul_gelu_cpu[] = { { "matmul_gelu_packed", packed_accepts, packed_scratch, packed_run },
                                      { "matmul_gelu_reference", NULL, NULL, reference_run },
                                      { 0 } };
const op_kernel matmul_gelu_backward_cpu[] = {
    { "matmul_gelu_backward_packed", packed_accepts, packed_scratch, packed_backward_run },
    { "matmul_gelu_backward_reference", NULL, NULL, reference_backward_run },
    { 0 }
};
