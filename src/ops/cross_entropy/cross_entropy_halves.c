#include "ops/cross_entropy/cross_entropy_halves.h"

#include <string.h>

#include "base/half_avx512.h"
#include "base/instructions.h"
#include "ops/cross_entropy/cross_entropy_math.h"
#include "ops/fast.h"

#if defined(__x86_64__)

#define TARGET HALF_BF16_TARGET
#define INLINE inline __attribute__((always_inline))

/* Numbers of a vector of 16 bits; vectors of lanes. */
enum { HALVES = 32, LANES = 16, VECTORS = VECTOR_LANES / LANES, BLOCK = CROSS_ENTROPY_BLOCK, AHEAD = 1024 };

bool cross_entropy_accepts_halves(const op_call *c) {
    const dtype type = c->in[0].dtype;
    bool whole = c->out[0].dtype == DTYPE_F32 || c->out[0].dtype == type;
    for (uint32_t i = 1; i < c->in_count; i++)
        whole &= !dtype_is_float(c->in[i].dtype) || c->in[i].dtype == DTYPE_F32;
    return whole && dtype_is_half(type) && instructions_usable(INSTRUCTIONS_AVX512) &&
           half_avx512_bf16_usable();
}

/* ---- exponentials ---- */

/* exp(x) as vector_exp_bounded has it, step by step. */
TARGET static INLINE __m512 exponential(__m512 x) {
    const __m512 rounder = _mm512_set1_ps(12582912.0f), one = _mm512_set1_ps(1);
    __m512 n = _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), rounder);
    __m512i power =
        _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(n), 23), _mm512_set1_epi32(0x3f800000));
    n = _mm512_sub_ps(n, rounder);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f),
                               _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693359375f), x));
    __m512 square = _mm512_mul_ps(r, r);
    __m512 low = _mm512_fmadd_ps(_mm512_set1_ps(1.6666520e-1f), r, _mm512_set1_ps(0.49999993f)),
           high = _mm512_fmadd_ps(_mm512_set1_ps(8.3687451e-3f), r, _mm512_set1_ps(4.1668391e-2f));
    __m512 q = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_set1_ps(1.3814540e-3f), square, high), square, low);
    __m512 p = _mm512_fmadd_ps(_mm512_fmadd_ps(q, r, one), r, one);
    __mmask16 counts = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3365448f), _CMP_NLT_UQ);
    return _mm512_maskz_mul_ps(counts, p, _mm512_castsi512_ps(power));
}

/* ---- the sum of a row ---- */

/* 32 numbers in f32. Of bf16 those at even places come first, then those at odd ones, which is one operation
 * each. */
typedef struct {
    __m512 x[2];
} wide;

TARGET static INLINE wide widen(__m512i halves, const dtype type) {
    if (type == DTYPE_BF16)
        return (wide){ { _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16)),
                         _mm512_castsi512_ps(_mm512_and_si512(halves, _mm512_set1_epi32(-65536))) } };
    return (wide){ { _mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
                     _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)) } };
}

/* Two vectors of lanes that were widened so, in their order. */
TARGET static INLINE void store_lanes(float *to, wide sums, const dtype type) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0),
                  high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    const bool apart = type == DTYPE_BF16;
    _mm512_storeu_ps(to, apart ? _mm512_permutex2var_ps(sums.x[0], low, sums.x[1]) : sums.x[0]);
    _mm512_storeu_ps(to + LANES, apart ? _mm512_permutex2var_ps(sums.x[0], high, sums.x[1]) : sums.x[1]);
}

/* What stands behind a row's end adds nothing and is never the largest: minus infinity. */
TARGET static INLINE __m512i load_some(const uint16_t *x, int64_t n, const dtype type) {
    const __m512i lowest = _mm512_set1_epi16((short)(type == DTYPE_BF16 ? 0xff80 : 0xfc00));
    __mmask32 inside = n >= HALVES ? 0xffffffffu : n > 0 ? (1u << n) - 1 : 0;
    return _mm512_mask_loadu_epi16(lowest, inside, x);
}

/* The largest of some numbers that are seen as integers: where one has no sign, the largest of signed
 * integers; where all have one, the smallest of unsigned ones. Of a row with NaN it may be anything, and the
 * row's sum is NaN. */
typedef struct {
    __m512i above, below;
} extremes;

TARGET static INLINE void see(extremes *e, __m512i halves) {
    e->above = _mm512_max_epi16(e->above, halves);
    e->below = _mm512_min_epu16(e->below, halves);
}

TARGET static INLINE float largest_of(const extremes *e, const dtype type) {
    wide w = widen(_mm512_mask_mov_epi16(e->above, _mm512_movepi16_mask(e->above), e->below), type);
    return _mm512_reduce_max_ps(_mm512_max_ps(w.x[0], w.x[1]));
}

TARGET static INLINE float block_maximum(const uint16_t *x, int64_t n, const dtype type) {
    extremes e = { load_some(x, n, type), load_some(x, n, type) };
    for (int64_t i = HALVES; i < n; i += HALVES) see(&e, load_some(x + i, n - i, type));
    return largest_of(&e, type);
}

TARGET static INLINE void add(wide *sums, __m512i halves, __m512 largest, const dtype type) {
    const wide w = widen(halves, type);
    for (int k = 0; k < 2; k++)
        sums->x[k] = _mm512_add_ps(sums->x[k], exponential(_mm512_sub_ps(w.x[k], largest)));
}

TARGET static INLINE float sum_of(const wide sums[VECTORS / 2], const dtype type) {
    float lane[VECTOR_LANES];
    for (int k = 0; k < VECTORS / 2; k++) store_lanes(lane + k * HALVES, sums[k], type);
    return vector_lanes_sum(lane);
}

TARGET static INLINE float block_sum(const uint16_t *x, int64_t n, float largest, const dtype type) {
    const __m512 most = _mm512_set1_ps(largest);
    wide sums[VECTORS / 2] = { 0 };
    for (int64_t i = 0; i < n; i += VECTOR_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS / 2; k++)
            add(&sums[k], load_some(x + i + k * HALVES, n - i - k * HALVES, type), most, type);
    return sum_of(sums, type);
}

/* block_sum of one block and block_maximum of the next, both whole. */
TARGET static INLINE float block_sum_and_maximum(const uint16_t *x, float largest, float *next,
                                                 const dtype type) {
    const __m512 most = _mm512_set1_ps(largest);
    wide sums[VECTORS / 2] = { 0 };
    extremes e = { _mm512_loadu_si512(x + BLOCK), _mm512_loadu_si512(x + BLOCK) };
    for (int64_t i = 0; i < BLOCK; i += VECTOR_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS / 2; k++) {
            const uint16_t *at = x + i + k * HALVES;
            __builtin_prefetch(at + BLOCK + AHEAD);
            add(&sums[k], _mm512_loadu_si512(at), most, type);
            see(&e, _mm512_loadu_si512(at + BLOCK));
        }
    *next = largest_of(&e, type);
    return sum_of(sums, type);
}

/* As row_lse of cross_entropy_cpu.c goes over a row of f32. */
TARGET static INLINE float row_lse(const uint16_t *x, int64_t classes, const dtype type) {
    int64_t begin = 0, n = classes < BLOCK ? classes : BLOCK;
    float largest = fast_get(x, 0, type), sum = 0, higher = block_maximum(x, n, type);
    for (;;) {
        if (higher > largest) {
            sum *= cross_entropy_shrink(largest, higher);
            largest = higher;
        }
        if (begin + 2 * BLOCK <= classes) {
            sum += block_sum_and_maximum(x + begin, largest, &higher, type);
            begin += BLOCK;
            continue;
        }
        sum += block_sum(x + begin, n, largest, type);
        begin += n;
        if (begin == classes) return cross_entropy_lse(largest, sum);
        n = classes - begin;
        higher = block_maximum(x + begin, n, type);
    }
}

TARGET static INLINE void lse_rows(const op_call *c, int64_t first, int64_t last, const dtype type) {
    int64_t classes = shape_last(&c->in[0].shape);
    float *lse = c->out[1].data;
    for (int64_t r = first; r < last; r++)
        lse[r] = row_lse((const uint16_t *)c->in[0].data + r * classes, classes, type);
}

TARGET static void lse_bf16(const op_call *c, int64_t first, int64_t last) {
    lse_rows(c, first, last, DTYPE_BF16);
}
TARGET static void lse_f16(const op_call *c, int64_t first, int64_t last) {
    lse_rows(c, first, last, DTYPE_F16);
}

void cross_entropy_halves_lse(const op_call *c, int64_t first, int64_t last) {
    (c->in[0].dtype == DTYPE_BF16 ? lse_bf16 : lse_f16)(c, first, last);
}

/* ---- the gradient ---- */

/* What `widen` makes of 32 numbers, rounded and in their order. */
TARGET static INLINE __m512i narrow(wide w, const dtype type) {
    static const _Alignas(64)
        uint16_t order[HALVES] = { 0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                   8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 };
    if (type == DTYPE_BF16)
        return _mm512_permutexvar_epi16(_mm512_load_si512(order), half_bf16_of_two(w.x[0], w.x[1]));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(w.x[0], _MM_FROUND_TO_NEAREST_INT)),
                              _mm512_cvtps_ph(w.x[1], _MM_FROUND_TO_NEAREST_INT), 1);
}

TARGET static INLINE __m512i slopes(__m512i halves, __m512 factor, __m512 lse, const dtype type) {
    wide w = widen(halves, type);
    for (int k = 0; k < 2; k++) w.x[k] = _mm512_mul_ps(factor, exponential(_mm512_sub_ps(w.x[k], lse)));
    return narrow(w, type);
}

TARGET static INLINE void slopes_part(const uint16_t *x, int64_t n, float factor, float lse, uint16_t *dx,
                                      const dtype type) {
    const __m512 by = _mm512_set1_ps(factor), less = _mm512_set1_ps(lse);
    int64_t i = 0;
    for (; i + HALVES <= n; i += HALVES) {
        __builtin_prefetch(x + i + AHEAD);
        _mm512_storeu_si512(dx + i, slopes(_mm512_loadu_si512(x + i), by, less, type));
    }
    if (i == n) return;
    __mmask32 inside = (1u << (n - i)) - 1;
    _mm512_mask_storeu_epi16(dx + i, inside, slopes(load_some(x + i, n - i, type), by, less, type));
}

/* A row may lie where its gradient goes. */
TARGET static INLINE void slope_row(const op_call *c, int64_t r, bool past, const dtype type) {
    int64_t classes = shape_last(&c->in[0].shape), label = ((const int32_t *)c->in[1].data)[r];
    const uint16_t *x = (const uint16_t *)c->in[0].data + r * classes;
    uint16_t *dx = (uint16_t *)c->out[0].data + r * classes, part[FAST_PART];
    float factor = *(const float *)c->in[2].data * *(const float *)c->in[4].data;
    float lse = ((const float *)c->in[3].data)[r];
    if (!cross_entropy_is_counted((int32_t)label, classes)) {
        memset(dx, 0, (size_t)classes * sizeof *dx);
        return;
    }
    float chosen = cross_entropy_slope_chosen(factor, fast_get(x, label, type), lse);
    for (int64_t i = 0; i < classes; i += FAST_PART) {
        int64_t n = classes - i < FAST_PART ? classes - i : FAST_PART;
        uint16_t *to = past ? part : dx + i;
        slopes_part(x + i, n, factor, lse, to, type);
        if (label >= i && label < i + n) fast_put(to, label - i, chosen, type);
        if (past) fast_store_past_halves(dx + i, to, n);
    }
}

TARGET static void slope_bf16_row(const op_call *c, int64_t r, bool past) {
    slope_row(c, r, past, DTYPE_BF16);
}
TARGET static void slope_f16_row(const op_call *c, int64_t r, bool past) { slope_row(c, r, past, DTYPE_F16); }

void cross_entropy_halves_slopes(const op_call *c, int64_t first, int64_t last) {
    bool past = fast_past_caches(c);
    for (int64_t r = first; r < last; r++)
        (c->in[0].dtype == DTYPE_BF16 ? slope_bf16_row : slope_f16_row)(c, r, past);
    if (past) fast_stored_past();
}

#else
bool cross_entropy_accepts_halves(const op_call *c) {
    (void)c;
    return false;
}
void cross_entropy_halves_lse(const op_call *c, int64_t first, int64_t last) {
    (void)c, (void)first, (void)last;
}
void cross_entropy_halves_slopes(const op_call *c, int64_t first, int64_t last) {
    (void)c, (void)first, (void)last;
}
#endif
