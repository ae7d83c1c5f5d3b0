/* Small matrix products between tiles: c (m,n) = [c +] a (m,k) b (k,n). Rows of b and c are contiguous, with
 * any distance between rows; elements of a lie anywhere on a grid, so a tile is read transposed for nothing.
 *
 * Every element of c is one chain of additions over k = 0, 1, 2 ..., whatever m and n are cut into: the bits
 * do not depend on how work was blocked. A multiply-add is fused where the instruction set has one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_column; /* distances between elements of a */
    const float *b;
    int64_t b_row;
    float *c;
    int64_t c_row;
    bool accumulate; /* add to what c holds */
} attention_product;

void attention_multiply(const attention_product *p);
/* The same, every multiply-add being fused on any machine: the bits are the same on all of them. */
void attention_multiply_fused(const attention_product *p);

/* One way per instruction set, best first, ending with name NULL: attention_multiply takes the first
 * available. The last is always available. */
typedef struct {
    const char *name;
    bool (*available)(void);
    void (*run)(const attention_product *p);
    bool fuses;
} attention_multiplier;
extern const attention_multiplier attention_multipliers[];
