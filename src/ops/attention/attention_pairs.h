/* Attention's products of bf16 by bf16, multiplied as it is on tiles: what attention and attention_flash
 * share, and their gradients. There is one way for whatever multiplies bf16 in this process: where the
 * product of matrices does so on tiles (matmul_kernel_chosen_pairs), attention does so too; elsewhere its
 * operands are widened.
 *
 * Forms of an operand. A tile instruction multiplies rows, which lie along the sum, by pairs: two neighbours
 * along the sum are a word, and the words of a pair lie side by side. Of 64 rows of a head there are four:
 *   rows    (64, deep)      bf16, a row after the other
 *   pairs   (32, wide)      words, rows 2i and 2i + 1 of a column: the sum goes over rows
 *   turned  (wide, 64)      bf16, columns as rows: the sum goes over rows as well, on the other side
 *   across  (deep / 2, 64)  words, columns 2i and 2i + 1 of a row: the sum goes over columns
 * where deep is D filled up to whole steps of 32 and wide is D filled up to whole tiles of 16, with zeros in
 * both, as in rows that there are none of. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/half.h"
#include "ops/attention/attention_tile.h"

enum {
    ATTENTION_PAIRS_TILE = 16, /* rows and columns of a tile of sums */
    ATTENTION_PAIRS_STEP = 32  /* numbers that an instruction adds up */
};

static inline int64_t attention_pairs_deep(const attention_view *v) { return (v->n.size + 31) / 32 * 32; }
static inline int64_t attention_pairs_wide(const attention_view *v) { return (v->n.size + 15) / 16 * 16; }

/* ---- products ---- */

/* c (m,n) = [c +] a (m,k) b (k,n) in f32: a in rows, b in pairs. m and n are multiples of
 * ATTENTION_PAIRS_TILE, k is one of ATTENTION_PAIRS_STEP. An element is one chain of additions, a step after
 * the other, onto 0 or what c holds; within a step the order is the instruction's (ops/native.h). */
typedef struct {
    int64_t m, n, k;
    const uint16_t *a;
    int64_t a_row; /* in numbers */
    const uint32_t *b;
    int64_t b_row; /* in words */
    float *c;
    int64_t c_row;
    bool accumulate;
} attention_pairs_product;

typedef struct {
    void (*multiply)(const attention_pairs_product *p);
    void (*begin)(void), (*end)(void); /* around the products that a thread makes in a row */
} attention_pairs_kernel;

extern const attention_pairs_kernel attention_pairs_amx, attention_pairs_twin; /* twin: in plain C */

/* For a call with these operands; NULL: they are to be widened. */
const attention_pairs_kernel *attention_pairs_chosen(const attention_view *v);

/* ---- forms ---- */

/* Rows of a head of an operand of bf16. */
typedef struct {
    const attention_place *of;
    int64_t row, head, count; /* count: 64 at most where they take a form */
} attention_pairs_part;

/* As 64 of them, the missing ones 0. */
void attention_pairs_rows(const attention_view *v, const attention_pairs_part *p, uint16_t *rows);
/* The other forms, of these. */
void attention_pairs_pair(const attention_view *v, const uint16_t *rows, uint32_t *pairs);
void attention_pairs_turn(const attention_view *v, const uint32_t *pairs, uint16_t *turned);
void attention_pairs_cross(const attention_view *v, const uint16_t *rows, uint32_t *across);

/* Asks for rows that are written soon. */
void attention_pairs_expect(const attention_view *v, const attention_pairs_part *p);
/* Writes them from f32, whose rows are `stride` apart, each number rounded to the nearest. */
void attention_pairs_give(const attention_view *v, const attention_pairs_part *p, const float *from,
                          int64_t stride);

/* The nearest bf16 in the upper half of a word; beneath it is whatever. Of two that are as near it is the one
 * further from 0, which takes one addition: what is rounded here are exponentials and their products, where
 * such ties are one in 2^16. A NaN must have zeros in its lower half, as those that come from bf16 or from
 * nothing have. */
VECTOR_INLINE uint32_t attention_pairs_rounded(float x) { return half_bits(x) + 0x8000u; }

/* ---- tiles ---- */

/* Does every query of the tile see every key? */
bool attention_pairs_all_seen(const attention_view *v, const attention_tile *tile);

/* Scores of the tile as they come from the product: scaled, capped or with their bias, minus infinity where a
 * query does not see a key. */
void attention_pairs_scores(const attention_view *v, const attention_tile *tile, int lanes, float *scores);

/* Of an odd number of keys: one more row of a (64,64), for loops that take two at a time. */
void attention_pairs_even(const attention_tile *tile, float *x, float value);

/* Queries of a tile, filled up: what the loops over its lanes run to. */
static inline int attention_pairs_lanes(const attention_tile *tile) { return tile->queries > 32 ? 64 : 32; }
/* Its keys, filled up to whole tiles and whole steps. */
static inline int attention_pairs_key_rows(const attention_tile *tile) { return (tile->keys + 15) / 16 * 16; }
static inline int attention_pairs_key_depth(const attention_tile *tile) {
    return (tile->keys + 31) / 32 * 32;
}

/* Carves scratch for numbers of 16 bits and for words, as attention_tile_take does for f32. */
uint16_t *attention_pairs_take(float *base, uint64_t *used, int64_t count);
uint32_t *attention_pairs_take_words(float *base, uint64_t *used, int64_t count);
