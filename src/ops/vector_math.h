/* Exponential and its kin for fast kernels: straight-line float code that the compiler vectorises, the same
 * bits for every element whatever the instruction set, the loop's tail or the fusion around it.
 * Accuracy: exp within 2 units in the last place; tanh within 2e-7 absolute.
 * Method: reduction by ln 2 and a polynomial, after the Cephes library (Moshier). */
#pragma once

#include <stdint.h>

#include "base/vector.h"

VECTOR_INLINE float vector_exp(float x) {
    float inside = x > 88.3762626f ? 88.3762626f : x; /* NaN goes through */
    inside = inside < -87.3365448f ? -87.3365448f : inside;
    float n = (inside * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounds to an integer */
    float r = inside - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    union {
        uint32_t bits;
        float value;
    } power = { (uint32_t)((int32_t)n + 127) << 23 };
    return x < -87.3365448f ? 0.0f : p * power.value;
}

VECTOR_INLINE float vector_tanh(float x) { return 1.0f - 2.0f / (vector_exp(2.0f * x) + 1.0f); }
VECTOR_INLINE float vector_sigmoid(float x) { return 1.0f / (1.0f + vector_exp(-x)); }

/* Sums in a fixed order that the compiler vectorises: element i goes to lane i % VECTOR_LANES as long as all
 * lanes have one, what is left over is summed on its own, and the lanes are added as a tree. Write the inner
 * loop over the lanes plainly: for (j = 0; j < VECTOR_LANES; j++) lane[j] += f(x[i + j]). */
enum { VECTOR_LANES = 32 };

VECTOR_INLINE float vector_lanes_sum(const float lane[VECTOR_LANES], float rest) {
    float part[VECTOR_LANES / 2];
    for (int j = 0; j < VECTOR_LANES / 2; j++) part[j] = lane[j] + lane[j + VECTOR_LANES / 2];
    for (int step = VECTOR_LANES / 4; step > 0; step /= 2)
        for (int j = 0; j < step; j++) part[j] += part[j + step];
    return part[0] + rest;
}
