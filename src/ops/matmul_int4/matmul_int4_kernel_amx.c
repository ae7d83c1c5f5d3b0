/* Panels in tiles with AMX: a group's words, unpacked to bytes, are a tile as they lie, eight rows of a word
 * of each output; the rows' codes are the other one. A slice at a time: its codes become bytes in the first
 * cache, its tiles are multiplied, then the sums get their scales. For fewer rows than LEAST vectors are
 * faster. */
#include "base/instructions.h"
#include "ops/matmul_int4/matmul_int4_kernel.h"
#include "ops/tile_form.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-int8")))
#define INLINE inline __attribute__((always_inline))

enum {
    LEAST = 9,
    HALVES = 2 * CODES4_WORDS, /* words of bytes of an output's group */
    GROUP = HALVES * 64,       /* bytes of a panel's group, unpacked */
    SUMS = MATMUL_INT4_ROWS * CODES4_PANEL
};

/* 0: sums, 1: rows, 2: a group of a panel. */
#define FORM(n) [n] = { .palette = 1, .row_bytes = { 64, CODES4_GROUP, 64 }, .rows = { n, n, HALVES } }
static const tile_form forms[MATMUL_INT4_ROWS + 1] = { FORM(9),  FORM(10), FORM(11), FORM(12),
                                                       FORM(13), FORM(14), FORM(15), FORM(16) };

TARGET static INLINE void unpack(const uint8_t *codes, uint8_t *bytes) {
    const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int w = 0; w < CODES4_WORDS; w++) {
        __m512i both = _mm512_loadu_si512(codes + 64 * w);
        _mm512_store_si512(bytes + 128 * w, _mm512_and_si512(both, mask));
        _mm512_store_si512(bytes + 128 * w + 64, _mm512_and_si512(_mm512_srli_epi16(both, 4), mask));
    }
}

/* Some groups of a panel. */
typedef struct {
    int64_t from, count;
    const uint8_t *codes; /* of the first; */
    const uint16_t *scales;
    int64_t ahead; /* so much further lies what is likely to be read next */
} slice;

TARGET static INLINE void multiply(const matmul_int4_block *s, const slice *k, int32_t *sums) {
    enum { CODES = CODES4_PANEL * CODES4_BYTES };
    uint8_t bytes[MATMUL_INT4_SLICE * GROUP] __attribute__((aligned(64)));
    for (int64_t g = 0; g < k->count; g++) {
        unpack(k->codes + g * CODES, bytes + g * GROUP);
#pragma GCC unroll 4
        for (int i = 0; i < CODES; i += 64)
            _mm_prefetch((const char *)k->codes + g * CODES + k->ahead + i, _MM_HINT_T1);
    }
    for (int64_t g = 0; g < k->count; g++) {
        _tile_zero(0);
        _tile_loadd(1, s->a + (k->from + g) * CODES4_GROUP, s->groups * CODES4_GROUP);
        _tile_loadd(2, bytes + g * GROUP, 64);
        _tile_dpbsud(0, 1, 2);
        _tile_stored(0, sums + g * SUMS, 64);
    }
}

/* Products of the slice's sums with their scales, onto what there is. */
TARGET static INLINE void scale(const matmul_int4_block *s, const slice *k, const int32_t *sums, float *to) {
    __m512 scales[MATMUL_INT4_SLICE];
    for (int64_t g = 0; g < k->count; g++)
        scales[g] = _mm512_cvtph_ps(
            _mm256_loadu_si256((const __m256i *)(const void *)(k->scales + g * CODES4_PANEL)));
    for (int64_t row = 0; row < s->rows; row++) {
        const float *of_row = s->scales_a + row * s->groups + k->from;
        const int32_t *starts = s->starts + row * s->groups + k->from;
        __m512 x = _mm512_setzero_ps();
        for (int64_t g = 0; g < k->count; g++) {
            __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums + g * SUMS + row * CODES4_PANEL),
                                           _mm512_set1_epi32(starts[g]));
            __m512 by = _mm512_mul_ps(_mm512_set1_ps(of_row[g]), scales[g]);
            x = _mm512_add_ps(x, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), by));
        }
        float *sum = to + row * s->stride;
        __m512 before = k->from ? _mm512_loadu_ps(sum) : _mm512_setzero_ps();
        _mm512_storeu_ps(sum, _mm512_add_ps(before, x));
    }
}

TARGET static void panel(const matmul_int4_block *s, int64_t p) {
    int32_t sums[MATMUL_INT4_SLICE * SUMS] __attribute__((aligned(64)));
    for (int64_t from = 0; from < s->groups; from += MATMUL_INT4_SLICE) {
        int64_t at = (p * s->groups + from) * CODES4_PANEL, left = s->groups - from;
        slice k = { .from = from,
                    .count = left < MATMUL_INT4_SLICE ? left : MATMUL_INT4_SLICE,
                    .codes = s->codes + at * CODES4_BYTES,
                    .scales = s->scales + at,
                    .ahead = s->groups * CODES4_PANEL * CODES4_BYTES };
        multiply(s, &k, sums);
        scale(s, &k, sums, s->sum + p * CODES4_PANEL);
    }
}

TARGET static void block(const matmul_int4_block *s) {
    if (s->rows < LEAST) {
        matmul_int4_kernel_vnni.block(s);
        return;
    }
    _tile_loadconfig(&forms[s->rows]);
    for (int64_t p = 0; p < s->panels; p++) panel(s, p);
    _tile_release();
}

static bool available(void) {
    return instructions_usable(INSTRUCTIONS_AMX) && matmul_int4_kernel_vnni.available();
}

const matmul_int4_kernel matmul_int4_kernel_amx = { .name = "amx", .available = available, .block = block };
#endif
