#include "base/half.h"

#include "base/half_avx512.h"

/* Who widens some numbers at a time computes with them before the next ones: these are asked for meanwhile,
 * as many as are at hand and at most what a first cache has room for beside them. */
enum { LINE = 32, MOST_AHEAD = 2048 };
static int64_t ahead_of(int64_t n) { return n < MOST_AHEAD ? n : MOST_AHEAD; }

VECTOR_CLONES static void widen_bf16(const uint16_t *restrict x, int64_t n, float *restrict y) {
    int64_t i = 0, ahead = ahead_of(n);
    for (; i + LINE <= n; i += LINE) {
        __builtin_prefetch(x + i + ahead);
        for (int j = 0; j < LINE; j++) y[i + j] = half_from_bf16(x[i + j]);
    }
    for (; i < n; i++) y[i] = half_from_bf16(x[i]);
}

VECTOR_CLONES static void widen_f16_plain(const uint16_t *restrict x, int64_t n, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_from_f16(x[i]);
}

VECTOR_CLONES static void narrow_bf16_plain(const float *restrict x, int64_t n, uint16_t *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_to_bf16(x[i]);
}

VECTOR_CLONES static void narrow_f16_plain(const float *restrict x, int64_t n, uint16_t *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_to_f16(x[i]);
}

VECTOR_CLONES static void narrow_drawn_plain(const float *restrict x, const uint16_t *restrict bits,
                                             int64_t n, uint16_t *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_to_bf16_stochastic(x[i], bits[i]);
}

/* For f16 there are instructions that do just that, NaN and subnormal numbers included, whatever the modes of
 * rounding and flushing are. */
#if defined(__x86_64__)

#define TARGET __attribute__((target("avx512f")))
enum { LANES = 16 };

TARGET static int64_t widen_f16_avx512(const uint16_t *x, int64_t n, float *y) {
    int64_t i = 0, ahead = ahead_of(n);
    for (; i + LANES <= n; i += LANES) {
        __builtin_prefetch(x + i + ahead);
        _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
    }
    return i;
}

TARGET static int64_t narrow_f16_avx512(const float *x, int64_t n, uint16_t *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_si256((void *)(y + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

static void widen_f16(const uint16_t *x, int64_t n, float *y) {
    int64_t done = __builtin_cpu_supports("avx512f") ? widen_f16_avx512(x, n, y) : 0;
    widen_f16_plain(x + done, n - done, y + done);
}

static void narrow_f16(const float *x, int64_t n, uint16_t *y) {
    int64_t done = __builtin_cpu_supports("avx512f") ? narrow_f16_avx512(x, n, y) : 0;
    narrow_f16_plain(x + done, n - done, y + done);
}

HALF_BF16_TARGET static int64_t narrow_bf16_avx512(const float *x, int64_t n, uint16_t *y) {
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        _mm512_storeu_si512(y + i, half_bf16_of_two(_mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i + LANES)));
    return i;
}

HALF_TARGET static int64_t narrow_drawn_avx512(const float *x, const uint16_t *bits, int64_t n, uint16_t *y) {
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        _mm512_storeu_si512(y + i, half_bf16_drawn(_mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i + LANES),
                                                   _mm512_loadu_si512(bits + i)));
    return i;
}

static void narrow_bf16(const float *x, int64_t n, uint16_t *y) {
    int64_t done = half_avx512_bf16_usable() ? narrow_bf16_avx512(x, n, y) : 0;
    narrow_bf16_plain(x + done, n - done, y + done);
}

static void narrow_drawn(const float *x, const uint16_t *bits, int64_t n, uint16_t *y) {
    int64_t done = half_avx512_usable() ? narrow_drawn_avx512(x, bits, n, y) : 0;
    narrow_drawn_plain(x + done, bits + done, n - done, y + done);
}
#else
static void narrow_bf16(const float *x, int64_t n, uint16_t *y) { narrow_bf16_plain(x, n, y); }
static void narrow_drawn(const float *x, const uint16_t *bits, int64_t n, uint16_t *y) {
    narrow_drawn_plain(x, bits, n, y);
}
static void widen_f16(const uint16_t *x, int64_t n, float *y) { widen_f16_plain(x, n, y); }
static void narrow_f16(const float *x, int64_t n, uint16_t *y) { narrow_f16_plain(x, n, y); }
#endif

void half_widen(dtype type, const uint16_t *x, int64_t n, float *y) {
    if (type == DTYPE_BF16)
        widen_bf16(x, n, y);
    else
        widen_f16(x, n, y);
}

void half_narrow(dtype type, const float *x, int64_t n, uint16_t *y) {
    if (type == DTYPE_BF16)
        narrow_bf16(x, n, y);
    else
        narrow_f16(x, n, y);
}

/* A block of Philox rounds PER elements, two for a word, the lower half first. */
enum { PER = 8, STEP = PER * PHILOX_MANY };

static void draw_step(const half_random *r, int64_t first, uint16_t bits[STEP]) {
    uint64_t seed = (uint64_t)r->key.seed_high << 32 | r->key.seed_low, block = (uint64_t)(first / PER);
    uint32_t word[PHILOX_MANY_WORDS];
    philox_draw_many(
        seed, &(philox_block){ { (uint32_t)block, (uint32_t)(block >> 32), r->key.step, r->stream } }, word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(bits, word, sizeof word);
#else
    for (int e = 0; e < STEP; e++) bits[e] = (uint16_t)(word[e / 2] >> e % 2 * 16);
#endif
}

/* Elements of the whole, from where the last step left off to where this one ends. */
static int64_t end_of(int64_t base, int64_t end) { return base + STEP < end ? base + STEP : end; }

void half_narrow_stochastic(const half_random *r, int64_t first, const float *x, int64_t n, uint16_t *y) {
    uint16_t bits[STEP];
    for (int64_t at = first, next; at < first + n; at = next) {
        int64_t base = at / STEP * STEP;
        next = end_of(base, first + n);
        draw_step(r, base, bits);
        narrow_drawn(x + (at - first), bits + (at - base), next - at, y + (at - first));
    }
}

void half_draw(const half_random *r, int64_t first, int64_t n, uint16_t *bits) {
    uint16_t drawn[STEP];
    for (int64_t at = first, next; at < first + n; at = next) {
        int64_t base = at / STEP * STEP;
        next = end_of(base, first + n);
        draw_step(r, base, drawn);
        memcpy(bits + (at - first), drawn + (at - base), (size_t)(next - at) * sizeof *bits);
    }
}
