#include "base/half.h"

VECTOR_CLONES static void widen_bf16(const uint16_t *restrict x, int64_t n, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_from_bf16(x[i]);
}

VECTOR_CLONES static void widen_f16(const uint16_t *restrict x, int64_t n, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_from_f16(x[i]);
}

VECTOR_CLONES static void narrow_bf16(const float *restrict x, int64_t n, uint16_t *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_to_bf16(x[i]);
}

VECTOR_CLONES static void narrow_f16(const float *restrict x, int64_t n, uint16_t *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = half_to_f16(x[i]);
}

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

/* A block of Philox rounds PER elements; BLOCKS of them are drawn side by side, word by word, for the
 * vectors. */
enum { PER = 8, BLOCKS = 32 };

VECTOR_CLONES static void draw_blocks(const half_random *r, uint64_t first_block, uint32_t word[4][BLOCKS]) {
    uint64_t seed = (uint64_t)r->key.seed_high << 32 | r->key.seed_low;
    for (int b = 0; b < BLOCKS; b++) {
        uint64_t block = first_block + (uint64_t)b;
        philox_block drawn = philox_draw(
            seed, (philox_block){ { (uint32_t)block, (uint32_t)(block >> 32), r->key.step, r->stream } });
        for (int w = 0; w < 4; w++) word[w][b] = drawn.word[w];
    }
}

void half_narrow_stochastic(const half_random *r, int64_t first, const float *x, int64_t n, uint16_t *y) {
    uint32_t word[4][BLOCKS];
    int64_t step = (int64_t)BLOCKS * PER;
    for (int64_t base = first / step * step; base < first + n; base += step) {
        draw_blocks(r, (uint64_t)(base / PER), word);
        int64_t from = base < first ? first : base, to = base + step < first + n ? base + step : first + n;
        for (int64_t e = from; e < to; e++) {
            uint32_t place = (uint32_t)(e - base), half = place % PER;
            y[e - first] =
                half_to_bf16_stochastic(x[e - first], word[half / 2][place / PER] >> half % 2 * 16);
        }
    }
}
