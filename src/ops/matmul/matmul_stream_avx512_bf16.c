/* Few rows of bf16 by bf16 in vectors of sixteen pairs: two depths at a time. */
#include "ops/matmul/matmul_stream.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#include "ops/matmul/matmul_avx512.h"

enum { LANES = VECTOR, STEP = 2, GROUP = 8, WIDE_1 = 4, WIDE_2 = 2, WIDE_4 = 2 };
#define INLINE inline __attribute__((always_inline))
typedef __m512 vec; /* of sums, or of pairs */

TARGET static INLINE vec zero(void) { return _mm512_setzero_ps(); }
TARGET static INLINE vec load(const float *p) { return _mm512_load_ps(p); }
TARGET static INLINE vec load_any(const float *p) { return _mm512_loadu_ps(p); }
TARGET static INLINE void store(float *p, vec x) { _mm512_store_ps(p, x); }
TARGET static INLINE vec spread(const float *p) { return _mm512_set1_ps(*p); }
TARGET static INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
TARGET static INLINE vec times(vec a, vec b) { return _mm512_mul_ps(a, b); }
TARGET static INLINE vec fused(vec a, vec b, vec c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }

/* Two depths are woven into pairs, four columns of every eight in one vector and four in the other. */
TARGET static INLINE void read_unit(const matmul_unit *u, int64_t j, const dtype type, vec x[2]) {
    const char *at = u->at + matmul_stored_bytes(type, j);
    __m512i even = _mm512_loadu_si512(at);
    __m512i odd = u->depths > 1 ? _mm512_loadu_si512(at + u->stride) : _mm512_setzero_si512();
    x[0] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(even, odd));
    x[1] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(even, odd));
}

TARGET static INLINE void in_order(vec x[2], const dtype type) {
    const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                  high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    __m512d a = _mm512_castps_pd(x[0]), b = _mm512_castps_pd(x[1]);
    (void)type;
    x[0] = _mm512_castpd_ps(_mm512_permutex2var_pd(a, low, b));
    x[1] = _mm512_castpd_ps(_mm512_permutex2var_pd(a, high, b));
}

TARGET static INLINE void read_lines(const char *const row[LANES], int64_t at, int64_t bytes, vec x[LANES]) {
    __mmask32 inside = bytes < 64 ? ((__mmask32)1 << bytes / 2) - 1 : ~(__mmask32)0;
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        x[i] = bytes < 64 ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(inside, row[i] + at))
                          : _mm512_loadu_ps(row[i] + at);
    turn(x);
}

TARGET static INLINE vec number_in(vec word, const int e, const dtype type) {
    (void)e, (void)type;
    return word;
}

TARGET static INLINE vec scales_of_lines(const matmul_operand *o, int64_t line, int64_t depth) {
    (void)o, (void)line, (void)depth;
    return zero();
}

TARGET static INLINE void ask(const char *p) { _mm_prefetch(p, _MM_HINT_T1); }

#include "ops/matmul/matmul_stream_loops.h"

STREAM(matmul_stream_pairs, DTYPE_BF16)

bool matmul_streams_avx512_bf16(dtype b) { return b == DTYPE_BF16; }

void matmul_stream_avx512_bf16(const matmul_strip *s) { matmul_stream_pairs(s); }
#endif
