#include "ops/codes4.h"

#include <string.h>

enum { TRIES = 9, MIDDLE = 4, LANES = 8 };

/* The number that is largest without its sign; the first of several. Where one is not finite, that. */
static float extreme_of(const float *x) {
    float extreme = x[0];
    for (int i = 1; i < CODES4_GROUP; i++)
        if (codes_size(x[i]) > codes_size(extreme)) extreme = x[i];
    return extreme;
}

VECTOR_INLINE int32_t code_of(float x, float inverse) {
    const float rounder = 12582912.0f, least = -CODES4_ZERO, most = CODES4_ZERO - 1;
    float scaled = x * inverse, low = scaled > least ? scaled : least; /* NaN ends here */
    float y = (low < most ? low : most) + rounder;
    return (int32_t)(half_bits(y) - half_bits(rounder));
}

/* Codes from -8 on; returns the sum of squares of what they are wrong by. */
VECTOR_CLONES static float try_scale(const float *restrict x, float scale, int32_t *restrict codes) {
    float inverse = codes_inverse(scale < 0 ? -scale : scale), wrong[LANES] = { 0 };
    if (scale < 0) inverse = -inverse;
    for (int i = 0; i < CODES4_GROUP; i++) codes[i] = code_of(x[i], inverse);
    for (int i = 0; i < CODES4_GROUP; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float by = x[i + k] - scale * (float)codes[i + k];
            wrong[k] += by * by;
        }
    return ((wrong[0] + wrong[4]) + (wrong[2] + wrong[6])) + ((wrong[1] + wrong[5]) + (wrong[3] + wrong[7]));
}

/* The largest number is the code -8 of the scale in the middle, whose sign is so chosen. */
static uint16_t encode_group(const float *x, int32_t best[CODES4_GROUP]) {
    float extreme = extreme_of(x), least = 0;
    uint16_t found = 0;
    for (int t = 0; t < TRIES; t++) {
        int32_t codes[CODES4_GROUP];
        uint16_t half = half_to_f16(extreme / (-CODES4_ZERO + 0.25f * (float)(t - MIDDLE)));
        float wrong = try_scale(x, half_from_f16(half), codes);
        if (t > 0 && !(wrong < least)) continue;
        least = wrong, found = half;
        memcpy(best, codes, sizeof codes);
    }
    return found;
}

void codes4_encode_panel(const codes4_numbers *n, uint8_t *codes, uint16_t *scales) {
    for (int64_t g = 0; g < codes4_groups(n->depth); g++)
        for (int64_t lane = 0; lane < n->lanes; lane++) {
            float x[CODES4_GROUP];
            int32_t of[CODES4_GROUP] = { 0 };
            for (int d = 0; d < CODES4_GROUP; d++)
                x[d] = n->x[lane * n->by_line + (g * CODES4_GROUP + d) * n->by_depth];
            scales[g * n->lanes + lane] = encode_group(x, of);
            uint8_t *at = codes + g * n->lanes * CODES4_BYTES + 4 * lane;
            for (int w = 0; w < CODES4_WORDS; w++)
                for (int b = 0; b < 4; b++)
                    at[w * n->lanes * 4 + b] =
                        (uint8_t)((of[8 * w + b] + CODES4_ZERO) | (of[8 * w + 4 + b] + CODES4_ZERO) << 4);
        }
}

bool codes4_finite(const uint16_t *scales, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if ((scales[i] & 0x7c00u) == 0x7c00u) return false;
    return true;
}

/* ---- rows of 8 bits ---- */

VECTOR_CLONES static void encode_row(const float *restrict x, int64_t groups, int8_t *restrict codes,
                                     float *restrict scales, int32_t *restrict starts) {
    for (int64_t g = 0; g < groups; g++, x += CODES4_GROUP, codes += CODES4_GROUP) {
        int32_t largest = 0, sum = 0;
        for (int i = 0; i < CODES4_GROUP; i++) {
            int32_t size = codes_size(x[i]);
            largest = size > largest ? size : largest;
        }
        scales[g] = codes_scale(largest);
        float inverse = codes_inverse(scales[g]);
        for (int i = 0; i < CODES4_GROUP; i++) {
            int32_t code = codes_nearest(x[i], inverse);
            codes[i] = (int8_t)code;
            sum += code;
        }
        starts[g] = -CODES4_ZERO * sum;
    }
}

void codes4_encode_row(const float *x, int64_t depth, int8_t *codes, float *scales, int32_t *starts) {
    encode_row(x, codes4_groups(depth), codes, scales, starts);
}

void codes4_decode(const uint8_t *codes, const uint16_t *scales, const codes4_place *p,
                   float x[CODES4_GROUP]) {
    float scale = half_from_f16(scales[p->scale]);
    for (int d = 0; d < CODES4_GROUP; d++) x[d] = scale * (float)codes4_code(codes, p, d);
}
