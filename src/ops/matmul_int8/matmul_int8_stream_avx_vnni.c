/* Few rows of codes in vectors of 32 with AVX-VNNI. */
#include "ops/matmul_int8/matmul_int8_kernel.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,avxvnni")))
#include "ops/matmul_int8/matmul_int8_stream_256.h"

enum { OFFSET = 128 };
TARGET static INLINE vec made(vec b) { return _mm256_xor_si256(b, _mm256_set1_epi8((char)0x80)); }
TARGET static INLINE vec dot(vec sum, vec b, vec a) { return _mm256_dpbusd_avx_epi32(sum, b, a); }

#include "ops/matmul_int8/matmul_int8_stream_loops.h"

void matmul_int8_stream_avx_vnni(const matmul_int8_strip *s) { stream(s); }
#endif
