/* Attention's products in tiles, by the processor's instructions. */
#include "ops/attention/attention_pairs.h"
#include "ops/tile_form.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("amx-tile,amx-bf16")))
#define INLINE TARGET __attribute__((always_inline))
#define TILE(t)
#define ZERO(t) _tile_zero(t)
#define LOAD(t, from, stride) _tile_loadd(t, from, stride)
#define STORE(t, to, stride) _tile_stored(t, to, stride)
#define MULTIPLY(c, a, b) _tile_dpbf16ps(c, a, b)
#include "ops/attention/attention_pairs_tiles.h"

static const tile_form form = TILE_FORM_WHOLE;

TARGET static void begin(void) { _tile_loadconfig(&form); }

TARGET static void end(void) { _tile_release(); }

const attention_pairs_kernel attention_pairs_amx = { multiply, begin, end };
#endif
