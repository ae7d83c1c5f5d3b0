/* Blocks in tiles, by the processor's instructions. */
#include <string.h>

#include "base/instructions.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"
#include "ops/tile_form.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-int8")))
#include "ops/matmul/matmul_avx512.h"

TARGET static inline __attribute__((always_inline)) void turn_words(uint32_t *words) {
    __m512 x[VECTOR];
#pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++) x[i] = _mm512_load_ps(words + i * VECTOR);
    turn(x);
#pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++) _mm512_store_ps(words + i * VECTOR, x[i]);
}

TARGET static inline __attribute__((always_inline)) void add_rows(const uint32_t *x, const int32_t *start,
                                                                  int32_t *sum, int64_t rows) {
    __m512i begin = _mm512_load_si512(start);
    for (int64_t i = 0; i < rows; i++)
        _mm512_store_si512(sum + i * MATMUL_INT8_COLUMNS,
                           _mm512_add_epi32(begin, _mm512_load_si512(x + i * VECTOR)));
}

#define BLOCK TARGET
#define TILE(t)
#define ZERO(t) _tile_zero(t)
#define LOAD_A(t, from) _tile_loadd(t, from, MATMUL_INT8_ROWS * 4)
#define LOAD_B(t, from) _tile_loadd(t, from, 64)
#define STORE(t, to) _tile_stored(t, to, 64)
#define MULTIPLY(c, b, a) _tile_dpbsud(c, b, a)
#define TURN_WORDS(x) turn_words(x)
#define ADD_ROWS(x, start, sum, rows) add_rows(x, start, sum, rows)
#include "ops/matmul_int8/matmul_int8_tiles.h"

enum { OF_A = ROWS * 4, OF_B = TILE_WORDS * 4 };

/* Sums and tiles of a have fourteen columns. */
static const tile_form form = { .palette = 1,
                                .row_bytes = { OF_A, OF_A, OF_A, OF_A, OF_B, OF_B, OF_A, OF_A },
                                .rows = { TILE_WORDS, TILE_WORDS, TILE_WORDS, TILE_WORDS, TILE_WORDS,
                                          TILE_WORDS, TILE_WORDS, TILE_WORDS } };

BLOCK static void begin(void) { _tile_loadconfig(&form); }

BLOCK static void end(void) { _tile_release(); }

static bool available(void) { return instructions_usable(INSTRUCTIONS_AMX); }

const matmul_int8_kernel matmul_int8_kernel_amx = { .name = "amx",
                                                    .available = available,
                                                    .block = block,
                                                    .stream = matmul_int8_stream_amx,
                                                    .panels = 2,
                                                    .fill = TILE_WORDS,
                                                    .arrange = arrange,
                                                    .begin = begin,
                                                    .end = end };
#endif
