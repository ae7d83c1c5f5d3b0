/* Numbers as codes of 4 bits, NormalFloat: 16 values between -1 and 1 so placed that numbers of a normal
 * distribution fall on each of them about as often. A row of a matrix is cut into blocks of NF4_BLOCK; a
 * block has one scale in f32, its largest absolute value, and number = value[code] * scale. Two codes share a
 * byte, the first of them in the low half, so rows have an even length.
 *
 * The values are quantiles of the normal distribution: the paper's formula, which tests/ops computes anew.
 * Paper: Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs", arXiv:2305.14314. */
#pragma once

#include <stdint.h>

enum { NF4_BLOCK = 64, NF4_CODES = 16 };

#define NF4_VALUES                                                                                           \
    {                                                                                                        \
        -1.0f, -0x1.647366p-1f, -0x1.0cd66p-1f, -0x1.94654p-2f, -0x1.234498p-2f, -0x1.7a6a7ep-3f,            \
            -0x1.74f0d6p-4f, 0.0f, 0x1.45f606p-4f, 0x1.4995c2p-3f, 0x1.f809b8p-3f, 0x1.5a067p-2f,            \
            0x1.c3496ep-2f, 0x1.200f54p-1f, 0x1.722762p-1f, 1.0f                                             \
    }
extern const float nf4_value[NF4_CODES];

static inline int64_t nf4_blocks(int64_t columns) { return (columns + NF4_BLOCK - 1) / NF4_BLOCK; }

/* A row of so many numbers: its columns / 2 bytes and nf4_blocks scales. Each number gets the nearest value;
 * a block of zeros has the scale 0. */
void nf4_encode_row(const float *x, int64_t columns, uint8_t *codes, float *scales);

/* Numbers first .. first + n - 1 of a row, both even, in f32. */
void nf4_decode(const uint8_t *codes, const float *scales, int64_t first, int64_t n, float *x);
