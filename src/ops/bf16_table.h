/* Functions of one bf16 number, looked up. Of such numbers between 2^-23 and 2^8 there are 7,936, so a call
 * of many elements computes the function of each of them, and of zeros, with the op's kernel for f32, and
 * then looks results up: the bits are those of widened elements, whatever the function is. Where other
 * numbers lie among a thousand elements, those are computed one by one. The table lies in the call's scratch
 * and stays in the first cache.
 *
 * Kernels here are for ops all of whose floats are bf16. Results may live in any operand. */
#pragma once

#include "ops/fast.h"

/* Fewer elements don't pay for the table. */
enum { BF16_TABLE_LEAST = 1 << 16 };

bool bf16_table_accepts(const op_call *c);

/* Operations per element, for the model of time: looking up takes half of what `flops` are taken to do. */
double bf16_table_flops(const graph *g, const node *n, double flops);

/* The op's kernels: on f32, and on bf16 without a table. */
typedef struct {
    fast_body wide, direct;
} bf16_table_bodies;

/* y = f(x) */
uint64_t bf16_table_map_scratch(const op_call *c, int threads);
void bf16_table_map(const op_call *c, bf16_table_bodies of);

/* y = other f(x), of inputs x, other */
uint64_t bf16_table_product_scratch(const op_call *c, int threads);
void bf16_table_product(const op_call *c, bf16_table_bodies of);

/* The gradients of y = other f(x), of inputs x, other, dy: dx = (dy other) f'(x) and dother = dy f(x) */
uint64_t bf16_table_gradients_scratch(const op_call *c, int threads);
void bf16_table_gradients(const op_call *c, bf16_table_bodies of);
