#include "ops/attention/attention_dropout.h"

#include <string.h>

#include "ops/vector_math.h"

enum { TILE = ATTENTION_TILE };

/* What is drawn, by query: the block of four words that the tile's first key falls into, and its place in it.
 */
typedef struct {
    philox_key key;
    uint32_t sample, stream;
    uint32_t block[ATTENTION_TILE], place[ATTENTION_TILE];
} attention_draw;

#define NAME draw_portable
#define TARGET
#define WIDE uint64_t
#define NARROW uint32_t
#define LANES 1
#define WIDEN(x) ((uint64_t)(x))
#define NARROWED(x) ((uint32_t)(x))
#define MULTIPLY(a, b) ((uint64_t)(uint32_t)(a) * (b))
#include "ops/attention/attention_dropout_kernel.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

typedef uint64_t wide4 __attribute__((vector_size(32)));
typedef uint32_t narrow4 __attribute__((vector_size(16)));

#define NAME draw_avx2
#define TARGET __attribute__((target("avx2")))
#define WIDE wide4
#define NARROW narrow4
#define LANES 4
#define WIDEN(x) __builtin_convertvector(x, wide4)
#define NARROWED(x) __builtin_convertvector(x, narrow4)
#define MULTIPLY(a, b) ((wide4)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#include "ops/attention/attention_dropout_kernel.h"

typedef uint64_t wide8 __attribute__((vector_size(64)));
typedef uint32_t narrow8 __attribute__((vector_size(32)));

#define NAME draw_avx512
#define TARGET __attribute__((target("avx512f")))
#define WIDE wide8
#define NARROW narrow8
#define LANES 8
#define WIDEN(x) __builtin_convertvector(x, wide8)
#define NARROWED(x) __builtin_convertvector(x, narrow8)
#define MULTIPLY(a, b) ((wide8)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#include "ops/attention/attention_dropout_kernel.h"

static void draw(const attention_draw *d, uint32_t j, int queries, uint32_t *words) {
    if (__builtin_cpu_supports("avx512f"))
        draw_avx512(d, j, queries, words);
    else if (__builtin_cpu_supports("avx2"))
        draw_avx2(d, j, queries, words);
    else
        draw_portable(d, j, queries, words);
}

#else

static void draw(const attention_draw *d, uint32_t j, int queries, uint32_t *words) {
    draw_portable(d, j, queries, words);
}

#endif

/* One key from the words of four: which of them it is depends on the query. */
VECTOR_CLONES static void keep_row(const attention_draw *d, const uint32_t *words, int queries, float dropout,
                                   float *keep) {
    float factor = 1.0f / (1.0f - dropout);
    for (int t = 0; t < queries; t++) {
        uint32_t at = d->place[t];
        uint32_t word0 = words[t], word1 = words[TILE + t], word2 = words[2 * TILE + t],
                 word3 = words[3 * TILE + t];
        uint32_t low = at & 1 ? word1 : word0, high = at & 1 ? word3 : word2;
        uint32_t word = at & 2 ? high : low;
        keep[t] = ((float)(int32_t)(word >> 8) + 0.5f) * 0x1p-24f >= dropout ? factor : 0.0f;
    }
}

void attention_dropout(const attention_view *v, const attention_tile *tile, uint32_t *words, float *keep) {
    attention_draw d = { .key = *v->key,
                         .sample = v->key->first_sample + (uint32_t)tile->b,
                         .stream = v->stream };
    for (int t = 0; t < tile->queries; t++) {
        uint64_t element = attention_pair(&v->sight, tile->h, tile->t + t, tile->s);
        d.block[t] = (uint32_t)(element >> 2);
        d.place[t] = element & 3;
    }
    int rows = tile->keys + 3; /* the first key may be the fourth of its block */
    for (int j = 0; 4 * j < rows; j++) draw(&d, (uint32_t)j, tile->queries, words + 4 * j * TILE);
    for (int s = 0; s < tile->keys; s++)
        keep_row(&d, words + s * TILE, tile->queries, v->dropout, keep + s * TILE);
}
