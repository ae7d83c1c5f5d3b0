/* Few rows in vectors of eight f32. */
#include "ops/matmul/matmul_stream.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#include "ops/nf4.h"

enum { LANES = 8, STEP = 1, GROUP = 4, WIDE_1 = 4, WIDE_2 = 2, WIDE_4 = 1 };
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define INLINE inline __attribute__((always_inline))
typedef __m256 vec;

TARGET static INLINE vec zero(void) { return _mm256_setzero_ps(); }
TARGET static INLINE vec load(const float *p) { return _mm256_load_ps(p); }
TARGET static INLINE vec load_any(const float *p) { return _mm256_loadu_ps(p); }
TARGET static INLINE void store(float *p, vec x) { _mm256_store_ps(p, x); }
TARGET static INLINE vec spread(const float *p) { return _mm256_broadcast_ss(p); }
TARGET static INLINE vec add(vec a, vec b) { return _mm256_add_ps(a, b); }
TARGET static INLINE vec times(vec a, vec b) { return _mm256_mul_ps(a, b); }
TARGET static INLINE vec fused(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }

static const float values[NF4_CODES] __attribute__((aligned(64))) = NF4_VALUES;

/* The values of the codes in the lowest four bits of words: the fourth says which half of the table. */
TARGET static INLINE vec values_of(__m256i codes, vec low, vec high) {
    vec half = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, codes), _mm256_permutevar8x32_ps(high, codes),
                            half);
}

/* ---- across ---- */

/* Of bf16 one vector has the even columns and one the odd ones; of codes of 4 bits, whose eight bytes are two
 * words four times, one the first four columns of each word, and one the others. */
TARGET static INLINE void read_unit(const matmul_unit *u, int64_t j, const dtype type, vec x[2]) {
    const char *at = u->at + matmul_stored_bytes(type, j);
    if (type == DTYPE_BF16) {
        __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)at);
        x[0] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
        x[1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000u)));
    } else if (type == DTYPE_U8) {
        const __m256i first = _mm256_set_epi32(12, 12, 8, 8, 4, 4, 0, 0);
        const __m256i second = _mm256_set_epi32(28, 28, 24, 24, 20, 20, 16, 16);
        const float *scale = u->o->scales + u->depth * nf4_blocks(u->o->stride) + (u->column + j) / NF4_BLOCK;
        vec of = _mm256_broadcast_ss(scale), low = times(load(values), of),
            high = times(load(values + 8), of);
        int64_t eight;
        memcpy(&eight, at, sizeof eight);
        __m256i codes = _mm256_set1_epi64x(eight);
        x[0] = values_of(_mm256_srlv_epi32(codes, first), low, high);
        x[1] = values_of(_mm256_srlv_epi32(codes, second), low, high);
    } else {
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            if (type == DTYPE_F32) x[v] = _mm256_loadu_ps((const float *)(const void *)at + v * LANES);
            if (type == DTYPE_F16)
                x[v] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(at + v * 2 * LANES)));
            if (type == DTYPE_I8) {
                __m128i codes = _mm_loadl_epi64((const __m128i *)(const void *)(at + v * LANES));
                vec scale = u->o->by_rows ? _mm256_broadcast_ss(u->o->scales + u->depth)
                                          : _mm256_loadu_ps(u->o->scales + u->column + j + v * LANES);
                x[v] = times(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), scale);
            }
        }
    }
}

TARGET static INLINE void in_order(vec x[2], const dtype type) {
    if (type == DTYPE_BF16) {
        vec low = _mm256_unpacklo_ps(x[0], x[1]), high = _mm256_unpackhi_ps(x[0], x[1]);
        x[0] = _mm256_permute2f128_ps(low, high, 0x20), x[1] = _mm256_permute2f128_ps(low, high, 0x31);
    } else if (type == DTYPE_U8) {
        const __m256i words = _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0);
        vec first = _mm256_permutevar8x32_ps(x[0], words), second = _mm256_permutevar8x32_ps(x[1], words);
        x[0] = _mm256_permute2f128_ps(first, second, 0x20),
        x[1] = _mm256_permute2f128_ps(first, second, 0x31);
    }
}

/* ---- along ---- */

/* Rows become columns: pairs, pairs of pairs, halves. */
TARGET static INLINE void turn(vec x[LANES]) {
    vec t[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0x44);
            x[i + 2 * k + 1] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0xee);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) x[i] = t[i];
}

TARGET static INLINE void read_lines(const char *const row[LANES], int64_t at, int64_t bytes, vec x[LANES]) {
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        float word[LANES] = { 0 };
        if (bytes < 32) memcpy(word, row[i] + at, (size_t)bytes);
        x[i] = _mm256_loadu_ps(bytes < 32 ? word : (const float *)(const void *)(row[i] + at));
    }
    turn(x);
}

TARGET static INLINE vec number_in(vec word, const int e, const dtype type) {
    __m256i w = _mm256_castps_si256(word);
    if (type == DTYPE_BF16)
        w = e ? _mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000u)) : _mm256_slli_epi32(w, 16);
    else if (type == DTYPE_F16) {
        w = e ? _mm256_srli_epi32(w, 16) : _mm256_and_si256(w, _mm256_set1_epi32(0xffff));
        return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
    } else if (type == DTYPE_I8)
        return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_sllv_epi32(w, _mm256_set1_epi32(24 - 8 * e)), 24));
    else if (type == DTYPE_U8)
        return values_of(_mm256_srlv_epi32(w, _mm256_set1_epi32(4 * e)), load(values), load(values + 8));
    return _mm256_castsi256_ps(w);
}

TARGET static INLINE vec scales_of_lines(const matmul_operand *o, int64_t line, int64_t depth) {
    int64_t blocks = nf4_blocks(o->stride);
    const __m256i order = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_i32gather_ps(o->scales + line * blocks + depth / NF4_BLOCK,
                               _mm256_mullo_epi32(order, _mm256_set1_epi32((int)blocks)), 4);
}

TARGET static INLINE void ask(const char *p) { _mm_prefetch(p, _MM_HINT_T1); }

#include "ops/matmul/matmul_stream_loops.h"

STREAM(stream_f32, DTYPE_F32)
STREAM(stream_f16, DTYPE_F16)
STREAM(stream_bf16, DTYPE_BF16)
STREAM(stream_codes8, DTYPE_I8)
STREAM(stream_codes4, DTYPE_U8)

/* Every processor with AVX2 that is known of does. */
static bool converts_f16(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

bool matmul_streams_avx2(dtype b) {
    if (b == DTYPE_F16) return converts_f16();
    return b == DTYPE_F32 || b == DTYPE_BF16 || b == DTYPE_I8 || b == DTYPE_U8;
}

void matmul_stream_avx2(const matmul_strip *s) {
    switch (s->b->type) {
    case DTYPE_F16: stream_f16(s); break;
    case DTYPE_BF16: stream_bf16(s); break;
    case DTYPE_I8: stream_codes8(s); break;
    case DTYPE_U8: stream_codes4(s); break;
    default: stream_f32(s);
    }
}
#endif
