/* Few rows in vectors of sixteen f32. */
#include "ops/matmul/matmul_stream.h"

#if defined(__x86_64__)
#include "ops/matmul/matmul_avx512.h"
#include "ops/nf4.h"

enum { LANES = VECTOR, STEP = 1, GROUP = 8, WIDE_1 = 4, WIDE_2 = 2, WIDE_4 = 2 };
#define INLINE inline __attribute__((always_inline))
typedef __m512 vec;

TARGET static INLINE vec zero(void) { return _mm512_setzero_ps(); }
TARGET static INLINE vec load(const float *p) { return _mm512_load_ps(p); }
TARGET static INLINE vec load_any(const float *p) { return _mm512_loadu_ps(p); }
TARGET static INLINE void store(float *p, vec x) { _mm512_store_ps(p, x); }
TARGET static INLINE vec spread(const float *p) { return _mm512_set1_ps(*p); }
TARGET static INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
TARGET static INLINE vec times(vec a, vec b) { return _mm512_mul_ps(a, b); }
TARGET static INLINE vec fused(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }

static const float values[NF4_CODES] __attribute__((aligned(64))) = NF4_VALUES;

/* ---- across ---- */

/* Of bf16 one vector has the even columns and one the odd ones; of codes of 4 bits, whose 16 bytes are four
 * words four times, one the first four columns of each word, and one the others. */
TARGET static INLINE void read_unit(const matmul_unit *u, int64_t j, const dtype type, vec x[2]) {
    const char *at = u->at + matmul_stored_bytes(type, j);
    if (type == DTYPE_BF16) {
        __m512i both = _mm512_loadu_si512(at);
        x[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
        x[1] = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000u)));
    } else if (type == DTYPE_U8) {
        const __m512i first = _mm512_set_epi32(12, 12, 12, 12, 8, 8, 8, 8, 4, 4, 4, 4, 0, 0, 0, 0);
        const __m512i second =
            _mm512_set_epi32(28, 28, 28, 28, 24, 24, 24, 24, 20, 20, 20, 20, 16, 16, 16, 16);
        const float *scale = u->o->scales + u->depth * nf4_blocks(u->o->stride) + (u->column + j) / NF4_BLOCK;
        vec table = _mm512_mul_ps(_mm512_load_ps(values), _mm512_set1_ps(*scale));
        __m512i codes = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)at));
        x[0] = _mm512_permutexvar_ps(_mm512_srlv_epi32(codes, first), table);
        x[1] = _mm512_permutexvar_ps(_mm512_srlv_epi32(codes, second), table);
    } else {
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            if (type == DTYPE_F32) x[v] = _mm512_loadu_ps((const float *)(const void *)at + v * LANES);
            if (type == DTYPE_F16)
                x[v] =
                    _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(at + v * 2 * LANES)));
            if (type == DTYPE_I8) {
                __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)(at + v * LANES));
                vec scale = u->o->by_rows ? _mm512_set1_ps(u->o->scales[u->depth])
                                          : _mm512_loadu_ps(u->o->scales + u->column + j + v * LANES);
                x[v] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)), scale);
            }
        }
    }
}

TARGET static INLINE void in_order(vec x[2], const dtype type) {
    if (type != DTYPE_BF16 && type != DTYPE_U8) return;
    bool halves = type == DTYPE_BF16;
    const __m512i low = halves ? _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0)
                               : _mm512_set_epi32(29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0);
    const __m512i more = _mm512_set1_epi32(halves ? 8 : 2);
    vec first = _mm512_permutex2var_ps(x[0], low, x[1]);
    x[1] = _mm512_permutex2var_ps(x[0], _mm512_add_epi32(low, more), x[1]);
    x[0] = first;
}

/* ---- along ---- */

TARGET static INLINE void read_lines(const char *const row[LANES], int64_t at, int64_t bytes, vec x[LANES]) {
    __mmask64 inside = bytes < 64 ? ((__mmask64)1 << bytes) - 1 : ~(__mmask64)0;
    if (bytes >= 64)
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) x[i] = _mm512_loadu_ps(row[i] + at);
    else
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            x[i] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi8(inside, row[i] + at));
    turn(x);
}

TARGET static INLINE vec number_in(vec word, const int e, const dtype type) {
    __m512i w = _mm512_castps_si512(word);
    if (type == DTYPE_BF16)
        w = e ? _mm512_and_si512(w, _mm512_set1_epi32((int)0xffff0000u)) : _mm512_slli_epi32(w, 16);
    else if (type == DTYPE_F16)
        return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(e ? _mm512_srli_epi32(w, 16) : w));
    else if (type == DTYPE_I8)
        return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_sllv_epi32(w, _mm512_set1_epi32(24 - 8 * e)), 24));
    else if (type == DTYPE_U8)
        return _mm512_permutexvar_ps(_mm512_srlv_epi32(w, _mm512_set1_epi32(4 * e)), _mm512_load_ps(values));
    return _mm512_castsi512_ps(w);
}

TARGET static INLINE vec scales_of_lines(const matmul_operand *o, int64_t line, int64_t depth) {
    int64_t blocks = nf4_blocks(o->stride);
    const __m512i order = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_i32gather_ps(_mm512_mullo_epi32(order, _mm512_set1_epi32((int)blocks)),
                               o->scales + line * blocks + depth / NF4_BLOCK, 4);
}

TARGET static INLINE void ask(const char *p) { _mm_prefetch(p, _MM_HINT_T1); }

#include "ops/matmul/matmul_stream_loops.h"

STREAM(stream_f32, DTYPE_F32)
STREAM(stream_f16, DTYPE_F16)
STREAM(stream_bf16, DTYPE_BF16)
STREAM(stream_codes8, DTYPE_I8)
STREAM(stream_codes4, DTYPE_U8)

bool matmul_streams_avx512(dtype b) {
    return b == DTYPE_F32 || dtype_is_half(b) || b == DTYPE_I8 || b == DTYPE_U8;
}

void matmul_stream_avx512(const matmul_strip *s) {
    switch (s->b->type) {
    case DTYPE_F16: stream_f16(s); break;
    case DTYPE_BF16: stream_bf16(s); break;
    case DTYPE_I8: stream_codes8(s); break;
    case DTYPE_U8: stream_codes4(s); break;
    default: stream_f32(s);
    }
}
#endif
