/* Blocks in plain C, row after row. */
#include "ops/matmul_int8/matmul_int8_kernel.h"

static int32_t product(uint32_t a, uint32_t b) {
    int32_t sum = 0;
    for (int k = 0; k < 32; k += 8) sum += (int32_t)(a >> k & 0xffu) * (int8_t)(b >> k & 0xffu);
    return sum;
}

static void block(int64_t fours, int64_t rows, const uint32_t *a, const uint32_t *b, const int32_t *start,
                  int32_t *sum) {
    for (int64_t i = 0; i < rows; i++, sum += MATMUL_INT8_COLUMNS) {
        uint32_t x[MATMUL_INT8_COLUMNS]; /* unsigned, as sums may wrap around on their way */
        for (int j = 0; j < MATMUL_INT8_COLUMNS; j++) x[j] = (uint32_t)start[j];
        for (int64_t f = 0; f < fours; f++)
            for (int j = 0; j < MATMUL_INT8_COLUMNS; j++)
                x[j] += (uint32_t)product(a[f * MATMUL_INT8_ROWS + i], b[f * MATMUL_INT8_COLUMNS + j]);
        for (int j = 0; j < MATMUL_INT8_COLUMNS; j++) sum[j] = (int32_t)x[j];
    }
}

static bool available(void) { return true; }

const matmul_int8_kernel matmul_int8_kernel_portable = { .name = "portable",
                                                         .available = available,
                                                         .block = block,
                                                         .stream = matmul_int8_stream_portable,
                                                         .panels = 1,
                                                         .fill = 1 };
