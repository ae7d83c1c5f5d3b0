/* Floats of 16 bits: f16 (IEEE 754 binary16: 5 bits of exponent, 10 of fraction) and bf16 (the upper half of
 * an f32: 8 and 7). They are kept in uint16_t, widened exactly and narrowed to the nearest, ties to even; NaN
 * stays NaN. Integer operations and one exact addition make the same bits on every machine, in vectors and
 * alone.
 *
 * Stochastic rounding takes the upper neighbour with the probability that makes the mean right, so that
 * updates far below the last place still move a weight. The draw belongs to the element: Philox on (seed,
 * stream, step, element). */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/vector.h"

VECTOR_INLINE float half_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

VECTOR_INLINE uint32_t half_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

VECTOR_INLINE float half_from_bf16(uint16_t x) { return half_float((uint32_t)x << 16); }

VECTOR_INLINE uint16_t half_to_bf16(float x) {
    uint32_t bits = half_bits(x), rounded = bits + 0x7fffu + (bits >> 16 & 1u), quiet_nan = bits | 0x400000u;
    return (uint16_t)((x != x ? quiet_nan : rounded) >> 16);
}

/* `random`: 16 uniform bits. */
VECTOR_INLINE uint16_t half_to_bf16_stochastic(float x, uint32_t random) {
    uint32_t bits = half_bits(x), rounded = bits + (random & 0xffffu), quiet_nan = bits | 0x400000u;
    return (uint16_t)((x != x ? quiet_nan : rounded) >> 16); /* adding leaves infinity as it is */
}

/* Subnormal numbers come out of an exact subtraction, as 2^-14 (1 + f) - 2^-14. */
VECTOR_INLINE float half_from_f16(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, size = (uint32_t)(x & 0x7fffu) << 13;
    uint32_t small = half_bits(half_float(size + (113u << 23)) - half_float(113u << 23));
    uint32_t special = 0x7f800000u | size | (size > 0x0f800000u ? 0x400000u : 0u);
    uint32_t wide = size < 1u << 23 ? small : size >= 0x0f800000u ? special : size + (112u << 23);
    return half_float(wide | sign);
}

/* Subnormal results are rounded by adding 1/2, whose last place is theirs. */
VECTOR_INLINE uint16_t half_to_f16(float x) {
    uint32_t bits = half_bits(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    uint32_t small = half_bits(half_float(size < 0x38800000u ? size : 0u) + 0.5f) - 0x3f000000u;
    uint32_t normal = (size + 0xfffu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    uint32_t nan = 0x7e00u | (size >> 13 & 0x3ffu);
    uint32_t finite = size < 0x38800000u ? small : normal;
    uint32_t large = size > 0x7f800000u ? nan : 0x7c00u;
    return (uint16_t)((size >= 0x477ff000u ? large : finite) | sign);
}

/* n elements of `type`, which is f16 or bf16. The arrays must not overlap. */
void half_widen(dtype type, const uint16_t *x, int64_t n, float *y);
void half_narrow(dtype type, const float *x, int64_t n, uint16_t *y);

/* Where random bits for rounding come from: key.first_sample is not looked at. */
typedef struct {
    philox_key key;
    uint32_t stream;
} half_random;

/* Elements first .. first + n - 1 of an array, whose own places begin at x and y: 16 random bits each, which
 * are the same however the array is cut. */
void half_narrow_stochastic(const half_random *r, int64_t first, const float *x, int64_t n, uint16_t *y);

/* The bits themselves. */
void half_draw(const half_random *r, int64_t first, int64_t n, uint16_t *bits);
