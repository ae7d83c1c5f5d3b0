/* Plain C. Where the target has a fused multiply-add, the compiler's vectors make it quick; elsewhere one is
 * put together from double arithmetic, so that the bits are those of every other micro-kernel. */
#include "ops/matmul/matmul_kernel.h"

#include <string.h>

enum { ROWS = 4, COLUMNS = 16 };

#if defined(__FP_FAST_FMAF)
static inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
/* The product of two floats is exact in double; its sum with c is rounded to odd there, so rounding it once
 * more to float is as good as rounding the exact value (Boldo, Melquiond, "Emulation of a FMA and correctly
 * rounded sums: proved algorithms using rounding to odd", 2008). */
static inline float fused(float a, float b, float c) {
    double product = (double)a * (double)b, sum = product + (double)c, c_part = sum - product;
    double error = (product - (sum - c_part)) + ((double)c - c_part);
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    bool inexact = error > 0 || error < 0; /* no for the NaN that infinities give */
    int64_t outward = (error > 0) == (sum > 0) ? 1 : -1;
    bits += inexact && !(bits & 1) ? outward : 0;
    memcpy(&sum, &bits, sizeof sum);
    return (float)sum;
}
#endif

static void block(int64_t depth, int64_t rows, const void *a, const void *b, float *sum,
                  matmul_prefetch *ask) {
    const float *of_a = a, *of_b = b;
    (void)ask;
    float x[ROWS][COLUMNS] = { 0 };
    for (int64_t p = 0; p < depth; p++, of_a += ROWS, of_b += COLUMNS)
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) x[i][j] = fused(of_a[i], of_b[j], x[i][j]);
    memcpy(sum, x, sizeof x[0] * (size_t)rows);
}

/* By the definition. */
static bool streams(dtype b) { return b == DTYPE_F32; }

static void stream(const matmul_strip *s) {
    const matmul_operand *b = s->b;
    int64_t along_depth = b->across ? b->stride : 1, along_columns = b->across ? 1 : b->stride;
    const float *from = (const float *)b->data + s->line * along_columns, *a = s->a;
    for (int64_t p = 0; p < s->depth; p++, from += along_depth, a += s->rows) {
        bool first = p % MATMUL_DEPTH == 0 && !s->begun,
             last = p + 1 == s->depth || (p + 1) % MATMUL_DEPTH == 0;
        last = last && !s->unfinished;
        for (int64_t i = 0; i < s->rows; i++) {
            float *x = s->work + i * s->columns, *sum = s->sum + i * s->columns;
            for (int64_t j = 0; j < s->columns; j++)
                x[j] = fused(a[i], from[j * along_columns], first ? 0 : x[j]);
            for (int64_t j = 0; last && j < s->columns; j++) sum[j] = (p < MATMUL_DEPTH ? 0 : sum[j]) + x[j];
        }
    }
}

static bool available(void) { return true; }

const matmul_kernel matmul_kernel_portable = { .name = "portable",
                                               .type = DTYPE_F32,
                                               .fill = 1,
                                               .rows = ROWS,
                                               .columns = COLUMNS,
                                               .available = available,
                                               .block = block,
                                               .streams = streams,
                                               .stream = stream,
                                               .pack_few = matmul_pack_portable,
                                               .pack_a = matmul_pack_portable,
                                               .pack_b = matmul_pack_portable,
                                               .pack_apart = matmul_pack_apart_portable };
