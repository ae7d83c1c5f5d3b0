/* Few rows of codes in vectors of 32 with AVX2. Its product of bytes adds two of them up in 16 bits: what a
 * code is large goes with the first factor, and its sign with the other, so that the most is 2 * 128 * 127
 * and fits. */
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#include "ops/matmul_int8/matmul_int8_stream_256.h"

enum { OFFSET = 0 };
TARGET static INLINE vec made(vec b) { return b; }
TARGET static INLINE vec dot(vec sum, vec b, vec a) {
    vec pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(b), _mm256_sign_epi8(a, b));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "ops/matmul_int8/matmul_int8_stream_loops.h"

void matmul_int8_stream_avx2(const matmul_int8_strip *s) { stream(s); }
#endif
