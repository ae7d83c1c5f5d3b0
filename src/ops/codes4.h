/* Numbers as codes of 4 bits, as products of integers read them. A matrix is (outputs, depth), however it lay
 * before; its depth, along which products sum, is cut into groups of CODES4_GROUP. A group of an output has
 * one scale in f16, and number = scale * (code - CODES4_ZERO), with codes 0 .. 15. Of some scales around the
 * one that gives the group's largest number the code 0, a group has that with the least squared error.
 *
 * CODES4_PANEL outputs lie side by side, the last of them may be fewer: so a vector has a word of each of
 * them, and nothing is turned in registers. By panel, by group:
 *
 *   codes   (4 words, lanes) u32: byte b of word w is depths 8w + b, in its low half, and 8w + 4 + b
 *   scales  (lanes) f16
 *
 * So there are outputs * depth / 2 bytes and outputs * depth / CODES4_GROUP scales, and depth is a multiple
 * of CODES4_GROUP. All is made of operations that every machine rounds alike.
 *
 * Numbers that products multiply these with become codes of 8 bits (ops/codes.h), with a scale for each group
 * of a row. The sum of a group is of integers, exact in any order.
 *
 * Papers: Dettmers, Zettlemoyer, "The case for 4-bit precision", arXiv:2212.09720, for groups; Jacob et al.,
 * arXiv:1712.05877, for products of codes. */
#pragma once

#include "ops/codes.h"

enum {
    CODES4_GROUP = 32,
    CODES4_PANEL = 16,
    CODES4_ZERO = 8, /* the code of 0 */
    CODES4_WORDS = CODES4_GROUP / 8,
    CODES4_BYTES = CODES4_GROUP / 2, /* of a group of one output */
};

static inline int64_t codes4_groups(int64_t depth) { return depth / CODES4_GROUP; }

/* Has a matrix whose products sum over `depth` such codes? */
static inline bool codes4_can(int64_t depth) { return depth > 0 && depth % CODES4_GROUP == 0; }

/* Of tensors: codes u8, scales f16. */
static inline shape codes4_shape(int64_t outputs, int64_t depth) { return SHAPE(outputs, depth / 2); }
static inline shape codes4_scales_shape(int64_t outputs, int64_t depth) {
    return SHAPE(outputs * codes4_groups(depth));
}

/* Where a group of an output lies: byte of its first word; the others follow `lanes` words further each. */
typedef struct {
    int64_t code, scale; /* bytes; numbers */
    int64_t lanes;
} codes4_place;
VECTOR_INLINE codes4_place codes4_at(int64_t outputs, int64_t groups, int64_t output, int64_t group) {
    int64_t first = output / CODES4_PANEL * CODES4_PANEL, lane = output - first;
    int64_t left = outputs - first, lanes = left < CODES4_PANEL ? left : (int64_t)CODES4_PANEL;
    codes4_place p = { first * groups * CODES4_BYTES + group * lanes * CODES4_BYTES + 4 * lane,
                       first * groups + group * lanes + lane, lanes };
    return p;
}

/* Number d of a group from its bytes. */
VECTOR_INLINE int32_t codes4_code(const uint8_t *codes, const codes4_place *p, int d) {
    int byte = codes[p->code + d / 8 * p->lanes * 4 + d % 4];
    return (d & 4 ? byte >> 4 : byte & 15) - CODES4_ZERO;
}

/* ---- encoding ---- */

/* Numbers of some neighbouring outputs: x[lane * by_line + d * by_depth]. They become a panel of `lanes`
 * outputs. codes4_finite: false where a number was not finite, or too large for a scale in f16. */
typedef struct {
    const float *x;
    int64_t by_line, by_depth;
    int64_t lanes, depth;
} codes4_numbers;
void codes4_encode_panel(const codes4_numbers *n, uint8_t *codes, uint16_t *scales);
bool codes4_finite(const uint16_t *scales, int64_t count);

/* ---- rows of 8 bits ---- */

/* A row of `depth` numbers: their codes, by group the scale, and -CODES4_ZERO times the sum of the codes, at
 * which the sum of products with codes from 0 on begins. */
void codes4_encode_row(const float *x, int64_t depth, int8_t *codes, float *scales, int32_t *starts);

/* A group of the matrix in f32. */
void codes4_decode(const uint8_t *codes, const uint16_t *scales, const codes4_place *p,
                   float x[CODES4_GROUP]);
