/* Blocks in tiles, by the processor's instructions. */
#include "base/instructions.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul/matmul_stream.h"
#include "ops/tile_form.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define BLOCK __attribute__((target("amx-tile,amx-bf16")))
#define TILE(t)
#define ZERO(t) _tile_zero(t)
#define LOAD(t, from, stride) _tile_loadd(t, from, stride)
#define STORE(t, to, stride) _tile_stored(t, to, stride)
#define MULTIPLY(c, a, b) _tile_dpbf16ps(c, a, b)
#include "ops/matmul/matmul_kernel_tiles.h"

static const tile_form form = TILE_FORM_WHOLE;

BLOCK static void begin(void) { _tile_loadconfig(&form); }

BLOCK static void end(void) { _tile_release(); }

static bool available(void) { return instructions_usable(INSTRUCTIONS_AMX); }

const matmul_kernel matmul_kernel_amx = { .name = "amx",
                                          .type = DTYPE_BF16,
                                          .fill = TILE_DEPTHS,
                                          .rows = SIDE,
                                          .columns = SIDE,
                                          .available = available,
                                          .block = block,
                                          .streams = matmul_streams_amx,
                                          .stream = matmul_stream_amx,
                                          .pack_few = matmul_pack_pairs_filled_avx512,
                                          .pack_a = matmul_pack_rows_avx512,
                                          .pack_b = matmul_pack_pairs_filled_avx512,
                                          .begin = begin,
                                          .end = end };
#endif
