/* Exponential, logarithm and their kin for fast kernels: straight-line float code that the compiler
 * vectorises, the same bits for every element whatever the instruction set, the loop's tail or the fusion
 * around it.
 * Accuracy: exp within 0.7 * 2^-23 of its value, log within 2^-23; tanh within 2e-7 absolute.
 * Method: x = n ln 2 + r with |r| <= ln 2 / 2; 2^n from the bits of n, exp(r) by a polynomial 1 + r + r^2
 * q(r), q fitted (minimax, relative error 3e-9). x = 2^e (1 + f) with |f| <= 1/3; log(1 + f) by a polynomial
 * f - f^2/2 + f^3 p(f), p fitted likewise (relative error 5e-9). */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/vector.h"

/* a * b + c, rounded once: an instruction where the processor has one, elsewhere the C library's word for it.
 */
VECTOR_INLINE float vector_fused(float a, float b, float c) { return fmaf(a, b, c); }

/* exp(x) for x up to 88.37: the same bits as vector_exp. Chains of dependent operations are kept short, for
 * it is their length that takes the time: the polynomial is added up in pairs. */
VECTOR_INLINE float vector_exp_bounded(float x) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to an integer */
    union {
        uint32_t bits;
        float value;
    } n, power;
    n.value = vector_fused(x, 1.44269504f, rounder);
    power.bits = (n.bits << 23) + 0x3f800000u; /* 2^n: the rounder's own bits are shifted out */
    n.value -= rounder;
    float r = vector_fused(n.value, 2.12194440e-4f, vector_fused(n.value, -0.693359375f, x));
    float square = r * r;
    float low = vector_fused(1.6666520e-1f, r, 0.49999993f),
          high = vector_fused(8.3687451e-3f, r, 4.1668391e-2f);
    float q = vector_fused(vector_fused(1.3814540e-3f, square, high), square, low);
    float p = vector_fused(vector_fused(q, r, 1.0f), r, 1.0f);
    return x < -87.3365448f ? 0.0f : p * power.value;
}

VECTOR_INLINE float vector_exp(float x) {
    return vector_exp_bounded(x > 88.3762626f ? 88.3762626f : x); /* NaN goes through */
}

/* log(x): of 0 minus infinity, of less NaN. */
VECTOR_INLINE float vector_log(float x) {
    union {
        uint32_t bits;
        float value;
    } normal, rest;
    normal.value = x < 0x1p-126f ? x * 0x1p23f : x;
    int32_t whole = (int32_t)(normal.bits - 0x3f2aaaabu) >> 23; /* less the bits of 2/3 */
    rest.bits = normal.bits - ((uint32_t)whole << 23);
    float f = rest.value - 1.0f, e = (float)(x < 0x1p-126f ? whole - 23 : whole);
    float square = f * f;
    float low = vector_fused(-2.4999798e-1f, f, 3.3333216e-1f),
          next = vector_fused(-1.6680486e-1f, f, 2.0010406e-1f),
          high = vector_fused(-1.2184284e-1f, f, 1.4005864e-1f),
          last = vector_fused(-1.2891572e-1f, f, 1.3984462e-1f);
    float p = vector_fused(vector_fused(vector_fused(last, square, high), square, next), square, low);
    float tail = vector_fused(f * p, square, -0.5f * square);
    float y = vector_fused(e, 0.693359375f, f + vector_fused(e, -2.12194440e-4f, tail));
    normal.bits = x == 0.0f ? 0xff800000u : 0x7fc00000u;
    y = x > 0.0f ? y : normal.value;
    return x > 3.40282347e+38f || x != x ? x : y;
}

VECTOR_INLINE float vector_tanh(float x) { return 1.0f - 2.0f / (vector_exp(2.0f * x) + 1.0f); }
VECTOR_INLINE float vector_sigmoid(float x) { return 1.0f / (1.0f + vector_exp(-x)); }

/* Asks for memory that is wanted soon: a line of VECTOR_LINE floats; it need not exist. Kernels that go over
 * a row more than once read it from memory in their first pass and would leave the memory idle in the others,
 * so every pass asks for some lines of what comes next. */
enum { VECTOR_LINE = 16 };
#ifndef __CUDACC__
VECTOR_INLINE void vector_fetch(const float *x) { __builtin_prefetch(x); }
#endif

/* So many elements at a time let the compiler use the widest vectors, where no order shows. */
enum { VECTOR_STEP = 32 };

/* Sums of a row have one order, on every kind of device: element i goes to lane i % VECTOR_LANES, and the
 * lanes are added as a tree, l and l + 64, then l and l + 32, and so on to l and l + 1. A row that ends
 * amidst the lanes is a row with zeros behind it. A thread t of a GPU has the lanes t, t + 32, t + 64 and
 * t + 96: neighbours read neighbours, the first two levels of the tree are its own, and five are exchanges.
 */
enum { VECTOR_LANES = 128 };

/* Sixteen at a time, which compilers do with plain stores: for all at once they take an instruction that is
 * slow to begin. */
VECTOR_INLINE void vector_lanes_clear(float lane[VECTOR_LANES]) {
    enum { SOME = VECTOR_LANES / 8 };
    memset(lane, 0, SOME * sizeof *lane), memset(lane + SOME, 0, SOME * sizeof *lane);
    memset(lane + 2 * SOME, 0, SOME * sizeof *lane), memset(lane + 3 * SOME, 0, SOME * sizeof *lane);
    memset(lane + 4 * SOME, 0, SOME * sizeof *lane), memset(lane + 5 * SOME, 0, SOME * sizeof *lane);
    memset(lane + 6 * SOME, 0, SOME * sizeof *lane), memset(lane + 7 * SOME, 0, SOME * sizeof *lane);
}

/* Runs a statement for each element i + j, j its lane, of a row of n: VECTOR_OVER_LANES(n, i, j, ahead,
 * lane[j] += x[i + j];). `ahead` is run before every VECTOR_STEP elements, of which i + j is the first, to
 * ask for memory. Where the row ends its elements come a step at a time as well, so that few are left for a
 * loop without vectors. */
#define VECTOR_OVER_LANES(n, i, j, ahead, ...)                                                               \
    do {                                                                                                     \
        int64_t i = 0;                                                                                       \
        int j##_end = 0;                                                                                     \
        for (; i + VECTOR_LANES <= (n); i += VECTOR_LANES) {                                                 \
            for (int j = 0; j < VECTOR_LANES; j += VECTOR_STEP) {                                            \
                ahead;                                                                                       \
            }                                                                                                \
            for (int j = 0; j < VECTOR_LANES; j++) {                                                         \
                __VA_ARGS__                                                                                  \
            }                                                                                                \
        }                                                                                                    \
        for (; i + j##_end + VECTOR_STEP <= (n); j##_end += VECTOR_STEP) {                                   \
            for (int j = j##_end; j == j##_end; j++) {                                                       \
                ahead;                                                                                       \
            }                                                                                                \
            for (int j##_in = 0; j##_in < VECTOR_STEP; j##_in++) {                                           \
                const int j = j##_end + j##_in;                                                              \
                __VA_ARGS__                                                                                  \
            }                                                                                                \
        }                                                                                                    \
        for (int j = j##_end; i + j < (n); j++) {                                                            \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    } while (0)

VECTOR_INLINE float vector_lanes_sum(const float lane[VECTOR_LANES]) {
    float part[VECTOR_LANES / 2];
    for (int l = 0; l < 64; l++) part[l] = lane[l] + lane[l + 64];
    for (int l = 0; l < 32; l++) part[l] += part[l + 32];
    for (int l = 0; l < 16; l++) part[l] += part[l + 16];
    for (int l = 0; l < 8; l++) part[l] += part[l + 8];
    for (int l = 0; l < 4; l++) part[l] += part[l + 4];
    return (part[0] + part[2]) + (part[1] + part[3]);
}
