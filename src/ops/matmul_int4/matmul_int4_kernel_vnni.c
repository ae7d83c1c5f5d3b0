/* Panels in vectors of 64 bytes with AVX-512 VNNI: a register has a word of each output. */
#include "base/instructions.h"
#include "ops/matmul_int4/matmul_int4_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { AT_ONCE = 4 /* rows */, PANELS = 2, FEW = 2, AHEAD = 4 << 10 /* bytes */ };
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE inline __attribute__((always_inline))

TARGET static INLINE __m512i fours(const int8_t *a) {
    return _mm512_set1_epi32(*(const int32_t *)(const void *)a);
}

/* Word w of group g of the panels, as two registers each. */
TARGET static INLINE void load(const matmul_int4_block *s, int64_t g, int w, const int panels,
                               __m512i half[PANELS][2]) {
    const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        const uint8_t *at = s->codes + (p * s->groups + g) * CODES4_PANEL * CODES4_BYTES + 64 * w;
        __m512i both = _mm512_loadu_si512(at);
        half[p][0] = _mm512_and_si512(both, mask);
        half[p][1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
    }
}

/* Asks for what comes soon; of two panels for as much of the next two as was read of these. */
TARGET static INLINE void ask(const matmul_int4_block *s, int64_t g, const int panels) {
    enum { BYTES = CODES4_PANEL * CODES4_BYTES };
    const char *codes = (const char *)s->codes;
#pragma GCC unroll 8
    for (int k = 0; k < panels * BYTES; k += 64)
        if (panels == 1)
            _mm_prefetch(codes + g * BYTES + AHEAD + k, _MM_HINT_T0);
        else
            _mm_prefetch(codes + panels * (s->groups + g) * BYTES + k, _MM_HINT_T1);
}

TARGET static INLINE __m512 scales_of(const matmul_int4_block *s, int p, int64_t g) {
    const uint16_t *at = s->scales + (p * s->groups + g) * CODES4_PANEL;
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

/* Group g of some rows from `row` on, added to x. A row's codes are broadcast once for all panels. */
TARGET static INLINE void add_group(const matmul_int4_block *s, int64_t g, int64_t row, const int rows,
                                    const int panels, __m512 x[AT_ONCE][PANELS]) {
    __m512i sum[AT_ONCE][PANELS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) sum[i][p] = _mm512_set1_epi32(s->starts[(row + i) * s->groups + g]);
#pragma GCC unroll 4
    for (int w = 0; w < CODES4_WORDS; w++) {
        __m512i half[PANELS][2];
        load(s, g, w, panels, half);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                __m512i a = fours(s->a + ((row + i) * s->groups + g) * CODES4_GROUP + 8 * w + 4 * h);
#pragma GCC unroll 2
                for (int p = 0; p < panels; p++) sum[i][p] = _mm512_dpbusd_epi32(sum[i][p], half[p][h], a);
            }
    }
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        __m512 scales = scales_of(s, p, g);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            __m512 by = _mm512_mul_ps(_mm512_set1_ps(s->scales_a[(row + i) * s->groups + g]), scales);
            x[i][p] = _mm512_add_ps(x[i][p], _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][p]), by));
        }
    }
}

/* One body for every number of rows and panels, which are constants wherever it is inlined. */
TARGET static INLINE void multiply(const matmul_int4_block *s, int64_t row, const int rows,
                                   const int panels) {
    for (int64_t from = 0; from < s->groups; from += MATMUL_INT4_SLICE) {
        int64_t to = from + MATMUL_INT4_SLICE < s->groups ? from + MATMUL_INT4_SLICE : s->groups;
        __m512 x[AT_ONCE][PANELS];
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int p = 0; p < panels; p++) x[i][p] = _mm512_setzero_ps();
        for (int64_t g = from; g < to; g++) {
            add_group(s, g, row, rows, panels, x);
            if (!row) ask(s, g, panels);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int p = 0; p < panels; p++) {
                float *sum = s->sum + (row + i) * s->stride + p * CODES4_PANEL;
                __m512 before = from ? _mm512_loadu_ps(sum) : _mm512_setzero_ps();
                _mm512_storeu_ps(sum, _mm512_add_ps(before, x[i][p]));
            }
    }
}

TARGET static void one_panel(const matmul_int4_block *s) {
    for (int64_t row = 0; row < s->rows; row += AT_ONCE) switch (s->rows - row) {
        case 1: multiply(s, row, 1, 1); break;
        case 2: multiply(s, row, 2, 1); break;
        case 3: multiply(s, row, 3, 1); break;
        default: multiply(s, row, AT_ONCE, 1); break;
        }
}

TARGET static void two_panels(const matmul_int4_block *s) {
    for (int64_t row = 0; row < s->rows; row += AT_ONCE) switch (s->rows - row) {
        case 1: multiply(s, row, 1, PANELS); break;
        case 2: multiply(s, row, 2, PANELS); break;
        case 3: multiply(s, row, 3, PANELS); break;
        default: multiply(s, row, AT_ONCE, PANELS); break;
        }
}

/* Few rows wait for memory, which is fastest when it is read on and on: one panel after the other. */
TARGET static void block(const matmul_int4_block *s) {
    if (s->panels == PANELS && s->rows > FEW) {
        two_panels(s);
        return;
    }
    for (int64_t p = 0; p < s->panels; p++) {
        matmul_int4_block one = *s;
        one.codes += p * s->groups * CODES4_PANEL * CODES4_BYTES;
        one.scales += p * s->groups * CODES4_PANEL;
        one.sum += p * CODES4_PANEL;
        one_panel(&one);
    }
}

static bool available(void) { return instructions_usable(INSTRUCTIONS_AVX512_VNNI); }

const matmul_int4_kernel matmul_int4_kernel_vnni = { .name = "avx512-vnni",
                                                     .available = available,
                                                     .block = block };
#endif
