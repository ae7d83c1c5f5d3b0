/* Numbers as floats of 8 bits, with one scale for each block of them: number = 2^(scale - 127) * code.
 *
 * e4m3 has 4 bits of exponent and 3 of fraction: up to 448, from 2^-9 on, no infinity, two NaN. e5m2 has 5
 * and 2: up to 57344, from 2^-16 on, infinity and NaN as f16 has them. Codes are rounded to the nearest, ties
 * to even, and saturate: what is too large becomes the largest code, and so does infinity. A scale is a byte,
 * e8m0: a power of 2, or NaN. It is the least for which no number of its block saturates, so dividing by it
 * is exact, and what a code stands for has at most four significant bits: it is a bf16, exactly. Hence
 * products of codes are products of bf16, bit for bit, however blocks lie along the sum.
 *
 * Blocks are FP8_TILE neighbours of a row, so that a row's codes don't depend on other rows; of a weight they
 * are squares of FP8_TILE x FP8_TILE, so that a weight has the same codes for the product of its rows and of
 * its columns. Where a block holds what is not finite, its scale is NaN, and so is all that its codes stand
 * for.
 *
 * Formats: Micikevicius et al., "FP8 formats for deep learning", arXiv:2209.05433; Open Compute Project, "OCP
 * 8-bit floating point specification (OFP8)", 2023. Scales: Rouhani et al., "Microscaling data formats for
 * deep learning", arXiv:2310.10537. Tiles: DeepSeek-AI, "DeepSeek-V3 technical report", arXiv:2412.19437,
 * section 3.3.2. */
#pragma once

#include "base/half.h"
#include "ir/op.h"

typedef enum { FP8_E4M3, FP8_E5M2 } fp8_form;

enum {
    FP8_TILE = 128,
    FP8_NAN_SCALE = 255,
    FP8_LEAST_SCALE = 17, /* below this the smallest codes would stand for subnormal numbers of bf16 */
};

/* Bits of fraction, exponent of the largest code, and where codes that are no numbers begin. */
VECTOR_INLINE uint32_t fp8_fraction(fp8_form form) { return form == FP8_E4M3 ? 3 : 2; }
VECTOR_INLINE uint32_t fp8_most_exponent(fp8_form form) { return form == FP8_E4M3 ? 8 : 15; }
VECTOR_INLINE uint32_t fp8_special(fp8_form form) { return form == FP8_E4M3 ? 0x7f : 0x7c; }
/* Of f32 less that of the form. */
VECTOR_INLINE uint32_t fp8_bias(fp8_form form) { return form == FP8_E4M3 ? 127 - 7 : 127 - 15; }

/* ---- scales ---- */

/* Of a block whose largest bits of |x| these are. The largest code's fraction is 1.75 in both forms. */
VECTOR_INLINE uint8_t fp8_scale(fp8_form form, int32_t largest) {
    int32_t exponent = (int32_t)(((uint32_t)largest + 0x1fffffu) >> 23) - (int32_t)fp8_most_exponent(form);
    int32_t scale = exponent > FP8_LEAST_SCALE ? exponent : FP8_LEAST_SCALE;
    return (uint8_t)(largest >= 0x7f800000 ? FP8_NAN_SCALE : scale);
}

VECTOR_INLINE float fp8_scale_value(uint8_t scale) {
    uint32_t bits = scale ? (uint32_t)scale << 23 : 0x400000u;
    return half_float(scale == FP8_NAN_SCALE ? 0x7fc00000u : bits);
}

/* What numbers are multiplied by before they become codes: a power of 2. A block that is not finite gets
 * zeros. */
VECTOR_INLINE float fp8_inverse(uint8_t scale) {
    return scale == FP8_NAN_SCALE ? 0.0f : half_float((uint32_t)(254 - scale) << 23);
}

/* ---- codes ---- */

/* Numbers below the smallest of full precision are rounded by adding a power of 2 whose last place is theirs.
 */
VECTOR_INLINE uint8_t fp8_encode(fp8_form form, float x) {
    uint32_t fraction = fp8_fraction(form), shift = 23 - fraction, bias = fp8_bias(form);
    uint32_t bits = half_bits(x), size = bits & 0x7fffffffu, normal = (bias + 1) << 23;
    uint32_t magic = (bias + 1 + shift) << 23;
    uint32_t small = half_bits(half_float(size < normal ? size : 0u) + half_float(magic)) - magic;
    uint32_t large = ((size + (1u << (shift - 1)) - 1 + (size >> shift & 1u)) >> shift) - (bias << fraction);
    uint32_t code = size < normal ? small : large, most = fp8_special(form) - 1;
    code = code < most ? code : most;
    return (uint8_t)(size > 0x7f800000u ? 0x7fu : code | (bits >> 24 & 0x80u));
}

VECTOR_INLINE float fp8_decode(fp8_form form, uint8_t code) {
    uint32_t fraction = fp8_fraction(form), shift = 23 - fraction, bias = fp8_bias(form);
    uint32_t size = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t small = half_bits((float)(int32_t)size * half_float((bias + 1 - fraction) << 23));
    uint32_t normal = (size << shift) + (bias << 23), special = fp8_special(form);
    uint32_t no_number = form == FP8_E5M2 && size == special ? 0x7f800000u : 0x7fc00000u;
    uint32_t finite = size >> fraction ? normal : small;
    return half_float((size >= special ? no_number : finite) | sign);
}

/* ---- runs of numbers ---- */

/* Blocks in a row of so many numbers, or in as many rows. */
static inline int64_t fp8_blocks(int64_t numbers) { return (numbers + FP8_TILE - 1) / FP8_TILE; }

/* n numbers of one block. */
void fp8_encode_run(fp8_form form, const float *x, uint8_t scale, int64_t n, uint8_t *codes);
void fp8_decode_run(fp8_form form, const uint8_t *codes, uint8_t scale, int64_t n, float *x);
/* As bf16: exact with scales of FP8_LEAST_SCALE and more. */
void fp8_decode_bf16(fp8_form form, const uint8_t *codes, uint8_t scale, int64_t n, uint16_t *x);
