/* Few rows of codes in vectors of 64 with AVX-512 VNNI. */
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
enum { BYTES = 64, GROUP = 4, OFFSET = 128 };
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#include "ops/matmul_int8/matmul_int8_weave_avx512.h"

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
TARGET static INLINE void ask_near(const char *p) { _mm_prefetch(p, _MM_HINT_T0); }

#include "ops/matmul_int8/matmul_int8_stream_loops.h"

void matmul_int8_stream_vnni(const matmul_int8_strip *s) { stream(s); }
#endif
