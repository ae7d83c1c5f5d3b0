/* Instructions that multiply and add numbers of 16 and 8 bits, in plain C: what each does to one lane, in its
 * own order, so that whatever is made of them has the same bits on a processor without it. Sources: Intel's
 * Software Developer's Manual, volume 2, the operation of VDPBF16PS, TDPBF16PS, TDPBSSD and VPDPBUSD. Tests
 * compare them with the processor's wherever it has them.
 *
 * Those on bfloat16 ask neither for the rounding mode nor for what is to become of subnormal numbers: they
 * round to the nearest, take subnormal numbers for zeros and make zeros of them. Which NaN comes out is left
 * open. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/vector.h"

enum {
    NATIVE_TILE_ROWS = 16,  /* of a tile register: */
    NATIVE_TILE_BYTES = 64, /* rows of so many bytes, */
    NATIVE_TILE_WORDS = NATIVE_TILE_BYTES / 4
};

/* ---- bfloat16 ---- */

VECTOR_INLINE float native_flushed(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000u) == 0) bits &= 0x80000000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One of the two numbers in a word, as an f32. */
VECTOR_INLINE float native_bf16(uint32_t word, const int place) {
    uint32_t bits = place ? word & 0xffff0000u : word << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* sum + a b, rounded once. It becomes zero where it would be below the smallest normal number if exponents
 * had no end: fmaf rounds some of these up to that number, and what they are shows in numbers 2^24 times as
 * large. */
VECTOR_INLINE float native_add_product(float sum, float a, float b) {
    a = native_flushed(a), b = native_flushed(b), sum = native_flushed(sum);
    float x = fmaf(a, b, sum);
    if (fabsf(x) <= 0x1p-126f) {
        bool a_smaller = fabsf(a) < fabsf(b);
        float larger = fmaf(a_smaller ? a * 0x1p24f : a, a_smaller ? b : b * 0x1p24f, sum * 0x1p24f);
        if (fabsf(larger) < 0x1p-102f) x = copysignf(0, x);
    }
    return x;
}

/* A lane of VDPBF16PS: the upper pair first. */
VECTOR_INLINE float native_dpbf16ps(float sum, uint32_t a, uint32_t b) {
    sum = native_add_product(sum, native_bf16(a, 1), native_bf16(b, 1));
    return native_add_product(sum, native_bf16(a, 0), native_bf16(b, 0));
}

/* ---- tiles ---- */

typedef struct {
    uint32_t word[NATIVE_TILE_ROWS][NATIVE_TILE_WORDS];
} native_tile;

/* Of rows of `bytes`, which is at most NATIVE_TILE_BYTES; the rest is 0. */
VECTOR_INLINE void native_tile_load(native_tile *t, const void *from, int64_t stride, size_t bytes) {
    *t = (native_tile){ 0 };
    for (int i = 0; i < NATIVE_TILE_ROWS; i++) memcpy(t->word[i], (const char *)from + i * stride, bytes);
}

VECTOR_INLINE void native_tile_store(const native_tile *t, void *to, int64_t stride) {
    for (int i = 0; i < NATIVE_TILE_ROWS; i++) memcpy((char *)to + i * stride, t->word[i], NATIVE_TILE_BYTES);
}

/* TDPBF16PS: a row of a has sixteen pairs along the sum, b a row for each of them. In each column the lower
 * numbers of the pairs have a sum and the upper ones another, both from 0; these are added, and that to c. */
VECTOR_INLINE void native_tdpbf16ps(native_tile *c, const native_tile *a, const native_tile *b) {
    for (int i = 0; i < NATIVE_TILE_ROWS; i++) {
        float sum[2][NATIVE_TILE_WORDS] = { { 0 } }, before[NATIVE_TILE_WORDS];
        for (int k = 0; k < NATIVE_TILE_ROWS; k++)
            for (int j = 0; j < NATIVE_TILE_WORDS; j++)
                for (int place = 0; place < 2; place++)
                    sum[place][j] = native_add_product(sum[place][j], native_bf16(a->word[i][k], place),
                                                       native_bf16(b->word[k][j], place));
        memcpy(before, c->word[i], sizeof before);
        for (int j = 0; j < NATIVE_TILE_WORDS; j++) {
            float both = native_add_product(sum[0][j], sum[1][j], 1);
            before[j] = native_add_product(before[j], both, 1);
        }
        memcpy(c->word[i], before, sizeof before);
    }
}

/* ---- bytes ---- */

/* Four signed bytes by four unsigned ones, added up: what TDPBSUD and, the other way round, a lane of
 * VPDPBUSD add to a sum modulo 2^32. */
VECTOR_INLINE uint32_t native_dpbsud(uint32_t sum, uint32_t a, uint32_t b) {
    for (int k = 0; k < 32; k += 8) sum += (uint32_t)((int8_t)(a >> k & 0xff) * (int32_t)(b >> k & 0xff));
    return sum;
}

VECTOR_INLINE void native_tdpbsud(native_tile *c, const native_tile *a, const native_tile *b) {
    for (int i = 0; i < NATIVE_TILE_ROWS; i++)
        for (int k = 0; k < NATIVE_TILE_ROWS; k++)
            for (int j = 0; j < NATIVE_TILE_WORDS; j++)
                c->word[i][j] = native_dpbsud(c->word[i][j], a->word[i][k], b->word[k][j]);
}
