/* Numbers as codes of 8 bits. A lane (a row or a column of a matrix) has one scale in f32, its largest
 * absolute value divided by 127, and a code, -127 .. 127, for each of its numbers: number = scale * code.
 *
 * A code is the nearest one (ties to even) or, with random bits, one of the two around the number with the
 * probabilities that make the mean right. The formulas stand here once and use no operation that machines
 * round differently, so a code is the same bit for bit from every kernel. Scales that the inverse of is not a
 * finite number count as 0, and all codes of such a lane are 0. Where a lane holds what is not finite, its
 * scale is not finite. */
#pragma once

#include "base/half.h"
#include "ir/op.h"

enum { CODES_MOST = 127 };

/* The bits of |x|: as integers they come in the order of the numbers, with infinity and NaN above all. */
VECTOR_INLINE int32_t codes_size(float x) { return (int32_t)(half_bits(x) & 0x7fffffffu); }

/* The scale of a lane whose largest codes_size this is. */
VECTOR_INLINE float codes_scale(int32_t largest) {
    float scale = half_float((uint32_t)largest) * (1.0f / CODES_MOST);
    return scale < 0x1p-126f ? 0.0f : scale;
}

VECTOR_INLINE float codes_inverse(float scale) { return scale >= 0x1p-126f ? 1.0f / scale : 0.0f; }

/* Adding 1.5 * 2^23 rounds to an integer, which then stands in the lowest bits. */
VECTOR_INLINE int32_t codes_rounded(float x) {
    const float rounder = 12582912.0f, most = CODES_MOST;
    float low = x > -most ? x : -most; /* NaN ends here */
    float y = (low < most ? low : most) + rounder;
    return (int32_t)(half_bits(y) - half_bits(rounder));
}

VECTOR_INLINE int32_t codes_nearest(float x, float inverse) { return codes_rounded(x * inverse); }

/* `random`: 16 uniform bits, taken for a number in (-1/2, 1/2) that is added before rounding. */
VECTOR_INLINE int32_t codes_stochastic(float x, float inverse, uint32_t random) {
    float shift = (float)((int32_t)random - 0x8000) * 0x1p-16f + 0x1p-17f;
    return codes_rounded(x * inverse + shift);
}

/* The same with 8 uniform bits: exact in the mean to 1/512 of a code, for sums of many, at half the price. */
VECTOR_INLINE int32_t codes_stochastic_coarse(float x, float inverse, uint32_t random) {
    float shift = (float)((int32_t)random - 0x80) * 0x1p-8f + 0x1p-9f;
    return codes_rounded(x * inverse + shift);
}

/* The codes of a weight have its name; their scales are a tensor of this one. */
enum { CODES_NAME_BYTES = 160 };
const char *codes_scales_name(const char *weight, char name[CODES_NAME_BYTES]);
/* How much of such a name is the weight's; 0: it is none such. */
size_t codes_scales_of(const char *name);

/* ---- runs of numbers ---- */

/* The largest codes_size of n numbers. */
int32_t codes_largest(const float *x, int64_t n);
/* largest[i] = the larger of it and codes_size(x[i]). */
void codes_largest_each(const float *x, int64_t n, int32_t *largest);

/* Random bits are drawn for CODES_DRAWN neighbours of a row at a time: a row of a matrix begins with a new
 * draw, and its draws are counted through its matrix. So they belong to the element, however it is reached.
 */
enum { CODES_DRAWN = 256 };

typedef struct {
    half_random random;
    uint32_t sample; /* of the batch, counted from key.first_sample */
} codes_draw;

static inline int64_t codes_draws(int64_t columns) { return (columns + CODES_DRAWN - 1) / CODES_DRAWN; }

/* The bits for elements `number` * CODES_DRAWN and following. */
void codes_draw_bits(const codes_draw *d, int64_t number, uint16_t bits[CODES_DRAWN]);

/* The same with 8 bits each, sixteen of them to a block of Philox: other bits than the above. */
void codes_draw_bytes(const codes_draw *d, int64_t number, uint8_t bytes[CODES_DRAWN]);

/* One of these: of element number * CODES_DRAWN + i. */
VECTOR_INLINE uint32_t codes_draw_byte(const codes_draw *d, int64_t number, int i) {
    enum { BLOCKS = CODES_DRAWN / 16 }; /* of a draw; they stand side by side, byte after byte of a block */
    uint64_t seed = (uint64_t)d->random.key.seed_high << 32 | d->random.key.seed_low;
    philox_block counter;
    counter.word[0] = (uint32_t)number * BLOCKS + (uint32_t)(i % BLOCKS);
    counter.word[1] = d->random.key.first_sample + d->sample;
    counter.word[2] = d->random.key.step, counter.word[3] = d->random.stream;
    philox_block drawn = philox_draw(seed, counter);
    int byte = i / BLOCKS;
    uint32_t low = byte & 4 ? drawn.word[1] : drawn.word[0], high = byte & 4 ? drawn.word[3] : drawn.word[2];
    return (byte & 8 ? high : low) >> 8 * (byte & 3) & 0xffu;
}

/* n numbers with one inverse for all, or with one each; `bits` (one a number) NULL: to the nearest. */
void codes_encode(const float *x, float inverse, const uint16_t *bits, int64_t n, int8_t *codes);
void codes_encode_each(const float *x, const float *inverse, const uint16_t *bits, int64_t n, int8_t *codes);
void codes_encode_each_coarse(const float *x, const float *inverse, const uint8_t *bytes, int64_t n,
                              int8_t *codes);

/* ---- a matrix that comes in parts ---- */

/* Twice, in the same or another order: first codes_matrix_look at all of it, then codes_matrix_scale, then
 * codes_matrix_encode. */
typedef struct {
    int64_t rows, columns;
    bool by_rows;  /* a scale for each row; else for each column */
    float *scales; /* zeroed at first */
} codes_matrix;
void codes_matrix_look(const codes_matrix *m, const float *x, int64_t first, int64_t n); /* elements, any */
void codes_matrix_scale(const codes_matrix *m);
/* The codes of these n elements. */
void codes_matrix_encode(const codes_matrix *m, const float *x, int64_t first, int64_t n, int8_t *codes);
