/* Codes of 8 bits for optimizer state, one at a time: the formulas of state.h. */
#pragma once

#include <math.h>

#include "base/half.h"
#include "ops/state.h"

enum { STATE_ZERO = STATE_CODES / 2 - 1, STATE_DECADES = 7 }; /* the code of 0 where there is a sign */

/* What a place among the map's values that are not negative stands for, as the map says it and without
 * looking there: vectors read eight times as fast as they look up. Value i of n, which is a power of two, in
 * the decade from 10^-t is 10^-t (0.1 + 0.9 (i + 1/2) / n) = (2n + 18i + 9) / (2n 10^t), and here both are
 * whole numbers that an f32 holds, so the quotient is rounded once. */
VECTOR_INLINE float state_value_at(int32_t place, bool positive) {
    int32_t number = place + positive; /* n + i, as the decades before have n values together, or one less */
    uint32_t power = half_bits((float)number) & 0x7f800000u;
    int32_t t = 7 + 127 + positive - (int32_t)(power >> 23);
    float n = half_float(power);
    float ten = (t & 1 ? 10.0f : 1.0f) * (t & 2 ? 100.0f : 1.0f) * (t & 4 ? 10000.0f : 1.0f);
    float value = (18 * (float)number - 16 * n + 9) / (2 * n * ten);
    value = t > 0 ? value : 1;
    return place > 0 ? value : 0;
}

/* The map's value of a code. */
VECTOR_INLINE float state_decoded(int32_t code, bool positive) {
    int32_t place = positive ? code : code - STATE_ZERO;
    float size = state_value_at(place < 0 ? -place : place, positive);
    return place < 0 ? -size : size;
}

/* By decade, for the map with a sign (n = 1, 2, 4, .. values) and the one without (n = 2, 4, ..): where it
 * ends, halfway between its last value and the next decade's first; how many values there are per unit. */
#define STATE_BORDER(end, n)                                                                                 \
    (float)((end) * (0.5 * (0.1 + 0.9 * ((n)-0.5) / (n)) + 5 * (0.1 + 0.9 * 0.5 / (2.0 * (n)))))
#define STATE_SLOPE(end, n) (float)((n) / (0.9 * (end)))
#define STATE_EACH_DECADE(X, f)                                                                              \
    {                                                                                                        \
        X(1e-6, (f)), X(1e-5, (f)*2), X(1e-4, (f)*4), X(1e-3, (f)*8), X(1e-2, (f)*16), X(1e-1, (f)*32),      \
            X(1e0, (f)*64)                                                                                   \
    }

/* Where 0 <= x <= 1 stands among the map's values that are not negative, counted from 0: in its decade, and
 * there at its place. Both are computed, as looking through the map takes much longer. */
VECTOR_INLINE int32_t state_place_of(float x, bool positive) {
    const float borders[2][STATE_DECADES] = { STATE_EACH_DECADE(STATE_BORDER, 1),
                                              STATE_EACH_DECADE(STATE_BORDER, 2) };
    const float slopes[2][STATE_DECADES] = { STATE_EACH_DECADE(STATE_SLOPE, 1),
                                             STATE_EACH_DECADE(STATE_SLOPE, 2) };
    float fewest = positive ? 2 : 1, count = fewest * 64, slope = slopes[positive][STATE_DECADES - 1];
    for (int d = STATE_DECADES - 2; d >= 0; d--) {
        bool below = x < borders[positive][d];
        count = below ? fewest * (float)(1 << d) : count;
        slope = below ? slopes[positive][d] : slope;
    }
    float place = x * slope - count * (1.0f / 9);
    place = place > 0 ? place : 0; /* NaN ends here */
    place = place < count - 1 ? place : count - 1;
    return (int32_t)place + (int32_t)(count - fewest) + 1;
}

/* The code of the nearest value; `inverse`: of the block's scale. Beyond halfway from the map's last value
 * below 1 stands 1, and up to halfway from the first one above 0 stands 0 where there is a sign. */
VECTOR_INLINE uint8_t state_coded_signed(float x, float inverse) {
    const float small = 0.5f * state_value_at(1, false),
                large = 0.5f * state_value_at(STATE_ZERO, false) + 0.5f;
    float size = fabsf(x) * inverse;
    int32_t place = state_place_of(size, false);
    place = size > small ? place : 0;
    int32_t above = size > large ? STATE_ZERO + 1 : place;
    return (uint8_t)(x < 0 ? STATE_ZERO - place : STATE_ZERO + above);
}

VECTOR_INLINE uint8_t state_coded_positive(float x, float inverse) {
    const float large = 0.5f * state_value_at(STATE_CODES - 2, true) + 0.5f;
    float size = x * inverse;
    int32_t place = state_place_of(size, true);
    place = size > large ? STATE_CODES - 1 : place;
    return (uint8_t)(x > 0 ? place : 0);
}

/* The lower or the upper neighbour of x among the map's values, the upper one with the probability that makes
 * the mean right; `nearest` is the code of one of them, `bits` are 16 random ones. */
VECTOR_INLINE uint8_t state_drawn(float x, uint8_t nearest, uint16_t bits, bool positive) {
    int32_t lower = state_decoded(nearest, positive) > x ? nearest - 1 : nearest;
    lower = lower > 0 ? lower : 0;
    lower = lower < STATE_CODES - 2 ? lower : STATE_CODES - 2;
    float low = state_decoded(lower, positive), high = state_decoded(lower + 1, positive);
    float part = (x - low) / (high - low);
    return (uint8_t)(lower + ((float)bits * 0x1p-16f < part));
}

/* The scale of a block whose largest absolute value this is: smaller ones are taken for zeros, as the inverse
 * may be no number. */
#define STATE_SMALLEST_SCALE 0x1p-126f
VECTOR_INLINE float state_scale(float largest) { return largest >= STATE_SMALLEST_SCALE ? largest : 0; }
VECTOR_INLINE float state_inverse(float scale) { return scale > 0 ? 1 / scale : 0; }
