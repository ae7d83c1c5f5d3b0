/* Blocks in tiles in plain C, by the instructions' twins. */
#include <string.h>

#include "ops/matmul_int8/matmul_int8_kernel.h"
#include "ops/native.h"

static void turn_words(uint32_t *x) {
    for (int i = 0; i < NATIVE_TILE_ROWS; i++)
        for (int j = 0; j < i; j++) {
            uint32_t kept = x[i * NATIVE_TILE_WORDS + j];
            x[i * NATIVE_TILE_WORDS + j] = x[j * NATIVE_TILE_WORDS + i];
            x[j * NATIVE_TILE_WORDS + i] = kept;
        }
}

static void add_rows(const uint32_t *x, const int32_t *start, int32_t *sum, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < NATIVE_TILE_WORDS; j++)
            sum[i * MATMUL_INT8_COLUMNS + j] = (int32_t)((uint32_t)start[j] + x[i * NATIVE_TILE_WORDS + j]);
}

#define BLOCK VECTOR_CLONES
#define TILE(t) native_tile tile##t;
#define ZERO(t)                                                                                              \
    tile##t = (native_tile) { 0 }
#define LOAD_A(t, from) native_tile_load(&tile##t, from, MATMUL_INT8_ROWS * 4, MATMUL_INT8_ROWS * 4)
#define LOAD_B(t, from) native_tile_load(&tile##t, from, NATIVE_TILE_BYTES, NATIVE_TILE_BYTES)
#define STORE(t, to) native_tile_store(&tile##t, to, NATIVE_TILE_BYTES)
#define MULTIPLY(c, b, a) native_tdpbsud(&tile##c, &tile##b, &tile##a)
#define TURN_WORDS(x) turn_words(x)
#define ADD_ROWS(x, start, sum, rows) add_rows(x, start, sum, rows)
#include "ops/matmul_int8/matmul_int8_tiles.h"

static bool available(void) { return true; }

const matmul_int8_kernel matmul_int8_kernel_amx_twin = { .name = "amx in plain C",
                                                         .available = available,
                                                         .block = block,
                                                         .stream = matmul_int8_stream_portable,
                                                         .panels = 2,
                                                         .fill = TILE_WORDS,
                                                         .arrange = arrange };
