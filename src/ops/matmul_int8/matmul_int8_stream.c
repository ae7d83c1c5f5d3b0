/* The product of a few rows with stored codes, as generating has it: the codes are read once, where they lie,
 * and no panels are made of them. The same codes of a, the same sums of integers and the same steps to floats
 * as in matmul_int8_packed.c, so the same bits. */
#include <string.h>

#include "base/least.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"

enum {
    ROWS = MATMUL_INT8_STREAM_ROWS,
    LANES = 128, /* of b that a thread takes at a time */
    DEPTHS = 8   /* that are added up before sums go back to memory */
};

static int64_t align(int64_t n) { return (n + 63) & ~(int64_t)63; }

typedef struct {
    const matmul_int8_problem *p;
    const int16_t *codes; /* of a, [row][depth]; depths up to a multiple of DEPTHS are 0 */
    const float *scales;  /* of a, by row */
    int64_t stride;
} job;

uint64_t matmul_int8_stream_scratch(const matmul_int8_problem *p) {
    return (uint64_t)(ROWS * align(p->depth) * (int64_t)(sizeof(int16_t) + sizeof(int8_t)));
}

/* ---- sums ---- */

/* Two products of codes fit into 16 bits. */
VECTOR_CLONES static void add_depths(const int8_t *const b[DEPTHS], const int16_t *a, int64_t n,
                                     int32_t *restrict sum) {
    const int8_t *b0 = b[0], *b1 = b[1], *b2 = b[2], *b3 = b[3], *b4 = b[4], *b5 = b[5], *b6 = b[6],
                 *b7 = b[7];
    for (int64_t i = 0; i < n; i++) {
        int16_t one = (int16_t)(a[0] * b0[i] + a[1] * b1[i]), two = (int16_t)(a[2] * b2[i] + a[3] * b3[i]),
                three = (int16_t)(a[4] * b4[i] + a[5] * b5[i]), four = (int16_t)(a[6] * b6[i] + a[7] * b7[i]);
        sum[i] += one + two + three + four;
    }
}

VECTOR_CLONES static int32_t add_along(const int8_t *b, const int16_t *a, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (int32_t)a[i] * (int32_t)b[i];
    return sum;
}

/* Of some neighbouring columns of b, which lies as (depth, lines). */
static void sum_across(const job *j, int64_t first, int64_t n, int32_t sum[ROWS][LANES]) {
    static const int8_t zeros[LANES];
    const int8_t *codes = (const int8_t *)j->p->b.data + first;
    for (int64_t d = 0; d < j->p->depth; d += DEPTHS) {
        const int8_t *b[DEPTHS];
        for (int64_t k = 0; k < DEPTHS; k++)
            b[k] = d + k < j->p->depth ? codes + (d + k) * j->p->b.stride : zeros;
        for (int64_t row = 0; row < j->p->rows; row++)
            add_depths(b, j->codes + row * j->stride + d, n, sum[row]);
    }
}

/* Of some neighbouring rows of b, which lies as (lines, depth). */
static void sum_along(const job *j, int64_t first, int64_t n, int32_t sum[ROWS][LANES]) {
    for (int64_t i = 0; i < n; i++) {
        const int8_t *b = (const int8_t *)j->p->b.data + (first + i) * j->p->b.stride;
        for (int64_t row = 0; row < j->p->rows; row++)
            sum[row][i] = add_along(b, j->codes + row * j->stride, j->p->depth);
    }
}

/* ---- y ---- */

VECTOR_CLONES static void end_row(const int32_t *sum, float a, const float *b, int64_t n, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)sum[i] * (a * b[i]);
}

VECTOR_CLONES static void add_row(const float *x, int64_t n, float *y) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + y[i];
}

static void run_lanes(void *context, int64_t piece, int thread) {
    const job *j = context;
    const matmul_int8_problem *p = j->p;
    int64_t first = piece * LANES, n = least(LANES, p->columns - first);
    int32_t sum[ROWS][LANES] = { 0 };
    (void)thread;
    (p->b.across ? sum_across : sum_along)(j, first, n, sum);
    for (int64_t row = 0; row < p->rows; row++) {
        int64_t place = row * p->columns + first;
        float x[LANES];
        end_row(sum[row], j->scales[row], p->b.scales + first, n, x);
        if (p->bias) add_row((const float *)p->bias + first, n, x);
        if (p->residual) add_row((const float *)p->residual + place, n, x);
        memcpy((float *)p->y + place, x, (size_t)n * sizeof *x);
    }
}

void matmul_int8_stream_run(const matmul_int8_problem *p, void *scratch) {
    int64_t stride = align(p->depth);
    int16_t *codes = scratch;
    int8_t *narrow = (int8_t *)(codes + ROWS * stride);
    float scales[ROWS];
    for (int64_t row = 0; row < p->rows; row++) {
        const float *x = (const float *)p->a.data + row * p->a.stride;
        scales[row] = matmul_int8_scale(&p->a, codes_largest(x, p->depth));
        codes_encode(x, codes_inverse(scales[row]), NULL, p->depth, narrow);
        for (int64_t d = 0; d < stride; d++) codes[row * stride + d] = d < p->depth ? narrow[d] : 0;
    }
    job j = { .p = p, .codes = codes, .scales = scales, .stride = stride };
    threads_for((p->columns + LANES - 1) / LANES, run_lanes, &j);
}
