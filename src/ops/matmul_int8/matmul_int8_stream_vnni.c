/* Few rows of codes in vectors of 64 with AVX-512 VNNI. */
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { BYTES = 64, GROUP = 4, OFFSET = 128 };
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE inline __attribute__((always_inline))
typedef __m512i vec;

TARGET static INLINE vec zero(void) { return _mm512_setzero_si512(); }
TARGET static INLINE vec load(const int32_t *p) { return _mm512_load_si512(p); }
TARGET static INLINE void store(int32_t *p, vec x) { _mm512_store_si512(p, x); }
TARGET static INLINE vec bytes_at(const int8_t *p) { return _mm512_loadu_si512(p); }
TARGET static INLINE vec fours(const int8_t *p) {
    return _mm512_set1_epi32(*(const int32_t *)(const void *)p);
}
TARGET static INLINE vec made(vec b) { return _mm512_xor_si512(b, _mm512_set1_epi8((char)0x80)); }
TARGET static INLINE vec dot(vec sum, vec b, vec a) { return _mm512_dpbusd_epi32(sum, b, a); }
TARGET static INLINE int32_t in_all(vec x) { return _mm512_reduce_add_epi32(x); }
TARGET static INLINE void ask(const char *p) { _mm_prefetch(p, _MM_HINT_T1); }

TARGET static INLINE void weave(vec b[4]) {
    vec low = _mm512_unpacklo_epi8(b[0], b[1]), high = _mm512_unpackhi_epi8(b[0], b[1]);
    vec low_after = _mm512_unpacklo_epi8(b[2], b[3]), high_after = _mm512_unpackhi_epi8(b[2], b[3]);
    b[0] = _mm512_unpacklo_epi16(low, low_after), b[1] = _mm512_unpackhi_epi16(low, low_after);
    b[2] = _mm512_unpacklo_epi16(high, high_after), b[3] = _mm512_unpackhi_epi16(high, high_after);
}

/* Quarters of the vectors are a square that is turned. */
TARGET static INLINE void in_order(vec x[4]) {
    vec low = _mm512_shuffle_i32x4(x[0], x[1], 0x44), high = _mm512_shuffle_i32x4(x[0], x[1], 0xee);
    vec low_after = _mm512_shuffle_i32x4(x[2], x[3], 0x44),
        high_after = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
    x[0] = _mm512_shuffle_i32x4(low, low_after, 0x88), x[1] = _mm512_shuffle_i32x4(low, low_after, 0xdd);
    x[2] = _mm512_shuffle_i32x4(high, high_after, 0x88), x[3] = _mm512_shuffle_i32x4(high, high_after, 0xdd);
}

#include "ops/matmul_int8/matmul_int8_stream_loops.h"

void matmul_int8_stream_vnni(const matmul_int8_strip *s) { stream(s); }
#endif
