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

/* A block of Philox rounds PER elements, two for a word, the lower half first. BLOCKS of them are drawn side
 * by side, word by word, for the vectors, and then brought into the elements' order. */
enum { PER = 8, BLOCKS = 32, STEP = PER * BLOCKS };

VECTOR_CLONES static void draw_step(const half_random *r, uint64_t first_block, uint32_t word[STEP / 2]) {
    uint64_t seed = (uint64_t)r->key.seed_high << 32 | r->key.seed_low;
    uint32_t drawn[4][BLOCKS];
    for (int b = 0; b < BLOCKS; b++) {
        uint64_t block = first_block + (uint64_t)b;
        philox_block four = philox_draw(
            seed, (philox_block){ { (uint32_t)block, (uint32_t)(block >> 32), r->key.step, r->stream } });
        for (int w = 0; w < 4; w++) drawn[w][b] = four.word[w];
    }
    for (int b = 0; b < BLOCKS; b++)
        for (int w = 0; w < 4; w++) word[4 * b + w] = drawn[w][b];
}

VECTOR_CLONES static void narrow_step(const float *restrict x, const uint32_t *restrict word,
                                      uint16_t *restrict y) {
    for (int k = 0; k < STEP / 2; k++) {
        y[2 * k] = half_to_bf16_stochastic(x[2 * k], word[k]);
        y[2 * k + 1] = half_to_bf16_stochastic(x[2 * k + 1], word[k] >> 16);
    }
}

void half_narrow_stochastic(const half_random *r, int64_t first, const float *x, int64_t n, uint16_t *y) {
    uint32_t word[STEP / 2];
    for (int64_t base = first / STEP * STEP; base < first + n; base += STEP) {
        draw_step(r, (uint64_t)(base / PER), word);
        if (first <= base && base + STEP <= first + n) {
            narrow_step(x + (base - first), word, y + (base - first));
            continue;
        }
        int64_t from = base < first ? first : base, to = base + STEP < first + n ? base + STEP : first + n;
        for (int64_t e = from; e < to; e++)
            y[e - first] = half_to_bf16_stochastic(x[e - first], word[(e - base) / 2] >> (e - base) % 2 * 16);
    }
}

void half_draw(const half_random *r, int64_t first, int64_t n, uint16_t *bits) {
    uint32_t word[STEP / 2];
    for (int64_t base = first / STEP * STEP; base < first + n; base += STEP) {
        draw_step(r, (uint64_t)(base / PER), word);
        int64_t from = base < first ? first : base, to = base + STEP < first + n ? base + STEP : first + n;
        for (int64_t e = from; e < to; e++)
            bits[e - first] = (uint16_t)(word[(e - base) / 2] >> (e - base) % 2 * 16);
    }
}
