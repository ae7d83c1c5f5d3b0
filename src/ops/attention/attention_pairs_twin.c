/* Attention's products in tiles, by the instructions' twins in plain C: the same bits on every machine. */
#include "base/vector.h"
#include "ops/attention/attention_pairs.h"
#include "ops/native.h"

#define TARGET VECTOR_CLONES
#define INLINE __attribute__((always_inline))
#define TILE(t) native_tile tile##t
#define ZERO(t)                                                                                              \
    tile##t = (native_tile) { 0 }
#define LOAD(t, from, stride) native_tile_load(&tile##t, from, stride, NATIVE_TILE_BYTES)
#define STORE(t, to, stride) native_tile_store(&tile##t, to, stride)
#define MULTIPLY(c, a, b) native_tdpbf16ps(&tile##c, &tile##a, &tile##b)
#include "ops/attention/attention_pairs_tiles.h"

static void nothing(void) {}

const attention_pairs_kernel attention_pairs_twin = { multiply, nothing, nothing };
