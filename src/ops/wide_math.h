/* Exponential, logarithm, powers and angles in double, for what depends on a step, a row or a position:
 * additions, multiplications and divisions only, so the bits are the same from every compiler, for every
 * instruction set and on every kind of device, which those of C libraries are not.
 *
 * Methods. exp: x = n ln 2 + r, |r| <= ln 2 / 2, the series of exp(r) to r^13. log: x = 2^e m, m between
 * sqrt(1/2) and sqrt(2), and with s = (m - 1) / (m + 1) the series of log m = 2 (s + s^3/3 + s^5/5 ..) to
 * s^23. Angles: x = n pi/2 + r, |r| <= pi/4, the series of sine and cosine to r^17. What is subtracted from x
 * is kept in parts so short that their products with n are exact (Cody, Waite, "Software manual for the
 * elementary functions", 1980). */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/vector.h"

VECTOR_INLINE uint64_t wide_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

VECTOR_INLINE double wide_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Added and subtracted again it rounds to a whole number, ties to even: 1.5 * 2^52. */
#define WIDE_ROUNDER 6755399441055744.0

VECTOR_INLINE double wide_two_to(int64_t n) { return wide_of_bits((uint64_t)(n + 1023) << 52); }

/* ln 2 in two parts, the first of 32 bits. */
#define WIDE_LN2_HIGH 0x1.62e42feep-1
#define WIDE_LN2_LOW 0x1.a39ef35793c76p-33

/* exp(x) within 2^-52 of its value; below 2^-1022 to 2^-1074 absolute. */
VECTOR_INLINE double wide_exp(double x) {
    double bounded = x > 800 ? 800 : x < -800 ? -800 : x; /* NaN goes through */
    double n = bounded * 0x1.71547652b82fep+0 + WIDE_ROUNDER;
    int64_t whole = (int64_t)(wide_bits(n) << 13) >> 13; /* the bits of the rounder are above */
    n -= WIDE_ROUNDER;
    double r = bounded - n * WIDE_LN2_HIGH - n * WIDE_LN2_LOW;
    double q = 1.0 / 6227020800;
    q = q * r + 1.0 / 479001600;
    q = q * r + 1.0 / 39916800;
    q = q * r + 1.0 / 3628800;
    q = q * r + 1.0 / 362880;
    q = q * r + 1.0 / 40320;
    q = q * r + 1.0 / 5040;
    q = q * r + 1.0 / 720;
    q = q * r + 1.0 / 120;
    q = q * r + 1.0 / 24;
    q = q * r + 1.0 / 6;
    q = q * r + 0.5;
    double p = 1 + (r + r * r * q);
    int64_t half = whole / 2; /* in two steps, for results that are no longer normal */
    return x != x ? x : p * wide_two_to(half) * wide_two_to(whole - half);
}

/* log(x), within 2^-52 of its value; of 0 minus infinity, of less NaN. */
VECTOR_INLINE double wide_log(double x) {
    double normal = x < 0x1p-1022 ? x * 0x1p54 : x;
    uint64_t bits = wide_bits(normal), from_root = bits - 0x3fe6a09e667f3bcdu; /* less those of sqrt(1/2) */
    int64_t whole = (int64_t)from_root >> 52;
    double f = wide_of_bits(bits - ((uint64_t)whole << 52)) - 1, s = f / (2 + f), z = s * s;
    double e = (double)(x < 0x1p-1022 ? whole - 54 : whole);
    double q = 2.0 / 23;
    q = q * z + 2.0 / 21;
    q = q * z + 2.0 / 19;
    q = q * z + 2.0 / 17;
    q = q * z + 2.0 / 15;
    q = q * z + 2.0 / 13;
    q = q * z + 2.0 / 11;
    q = q * z + 2.0 / 9;
    q = q * z + 2.0 / 7;
    q = q * z + 2.0 / 5;
    q = q * z + 2.0 / 3;
    /* log(1 + f) = f - (f^2/2 - s (f^2/2 + z q)): the largest term is exact */
    double square = 0.5 * f * f;
    double y = e * WIDE_LN2_HIGH - ((square - (s * (square + z * q) + e * WIDE_LN2_LOW)) - f);
    y = x > 0 ? y : x < 0 ? wide_of_bits(0x7ff8000000000000u) : wide_of_bits(0xfff0000000000000u);
    return x != x || x > 0x1.fffffffffffffp+1023 ? x : y;
}

/* x^y for x > 0; the relative error grows with |y log x|, which it is 2^-52 times of. */
VECTOR_INLINE double wide_power(double x, double y) { return wide_exp(y * wide_log(x)); }

/* x^n by squaring. */
VECTOR_INLINE double wide_power_whole(double x, uint32_t n) {
    double y = 1;
    for (; n; n >>= 1) {
        if (n & 1) y *= x;
        x *= x;
    }
    return y;
}

typedef struct {
    double cosine, sine;
} wide_turn;

/* Of an angle in radians, up to 2^31: both within 2^-52. */
VECTOR_INLINE wide_turn wide_turn_of(double x) {
    double n = x * 0x1.45f306dc9c883p-1 + WIDE_ROUNDER;
    uint64_t quarter = wide_bits(n);
    n -= WIDE_ROUNDER;
    /* pi/2 in four parts, three of 22 bits */
    double r = x - n * 0x1.921fbp+0 - n * 0x1.5110bp-22 - n * 0x1.184698p-44 - n * 0x1.3198a2e037073p-69;
    double z = r * r;
    double s = 1.0 / 355687428096000;
    s = s * z - 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    double c = 1.0 / 20922789888000;
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = c * z - 0.5;
    double sine = r + r * z * s, cosine = 1 + z * c;
    wide_turn turn = { quarter & 1 ? sine : cosine, quarter & 1 ? cosine : sine };
    if ((quarter + 1) & 2) turn.cosine = -turn.cosine;
    if (quarter & 2) turn.sine = -turn.sine;
    return turn;
}
