/* Blocks of pairs in plain C, by the instructions' twins: the same bits on every machine. */
#include "base/vector.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/native.h"

static bool available(void) { return true; }

/* ---- AVX512-BF16 ---- */

enum { ROWS = 14, COLUMNS = 32, PAIR = 2 };

VECTOR_CLONES static void block_of_pairs(int64_t depth, int64_t rows, const void *a, const void *b,
                                         float *sum, matmul_prefetch *ask) {
    (void)ask;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < COLUMNS; j++) {
            float x = 0;
            for (int64_t p = 0; p < depth / PAIR; p++)
                x = native_dpbf16ps(x, ((const uint32_t *)a)[p * ROWS + i],
                                    ((const uint32_t *)b)[p * COLUMNS + j]);
            sum[i * COLUMNS + j] = x;
        }
}

const matmul_kernel matmul_kernel_avx512_bf16_twin = { .name = "avx512-bf16 in plain C",
                                                       .type = DTYPE_BF16,
                                                       .fill = PAIR,
                                                       .rows = ROWS,
                                                       .columns = COLUMNS,
                                                       .available = available,
                                                       .block = block_of_pairs,
                                                       .pack_a = matmul_pack_pairs,
                                                       .pack_b = matmul_pack_pairs };

/* ---- AMX ---- */

#define BLOCK VECTOR_CLONES
#define TILE(t) native_tile tile##t;
#define ZERO(t)                                                                                              \
    tile##t = (native_tile) { 0 }
#define LOAD(t, from, stride) native_tile_load(&tile##t, from, stride, NATIVE_TILE_BYTES)
#define STORE(t, to, stride) native_tile_store(&tile##t, to, stride)
#define MULTIPLY(c, a, b) native_tdpbf16ps(&tile##c, &tile##a, &tile##b)
#include "ops/matmul/matmul_kernel_tiles.h"

const matmul_kernel matmul_kernel_amx_twin = { .name = "amx in plain C",
                                               .type = DTYPE_BF16,
                                               .fill = TILE_DEPTHS,
                                               .rows = SIDE,
                                               .columns = SIDE,
                                               .available = available,
                                               .block = block,
                                               .pack_a = matmul_pack_rows,
                                               .pack_b = matmul_pack_pairs_filled };
