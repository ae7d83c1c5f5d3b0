/* Functions of one number of 16 bits, looked up. Of bf16 there are 7,936 numbers between 2^-23 and 2^8, and
 * of f16 65,536 in all, so a call of many elements computes the function of each of them, and of zeros, with
 * the op's kernel for f32, and then looks results up: the bits are those of widened elements, whatever the
 * function is. Where other bf16 numbers lie among a thousand elements, those are computed one by one. The
 * table lies in the call's scratch; that of bf16 stays in the first cache, that of f16 in the second, and of
 * it what is usual in the first.
 *
 * Kernels here are for ops all of whose floats are bf16, or all f16. Results may live in any operand. */
#pragma once

#include "ops/fast.h"

/* Fewer elements don't pay for the table. */
enum { HALF_TABLE_LEAST_BF16 = 1 << 16, HALF_TABLE_LEAST_F16 = 1 << 20 };

bool half_table_accepts(const op_call *c);

/* Operations per element, for the model of time: looking up takes half of what `flops` are taken to do. */
double half_table_flops(const graph *g, const node *n, double flops);

/* The op's kernels: on f32, and on bf16 without a table, which those of f16 never need. */
typedef struct {
    fast_body wide, direct;
} half_table_bodies;

/* y = f(x) */
uint64_t half_table_map_scratch(const op_call *c, int threads);
void half_table_map(const op_call *c, half_table_bodies of);

/* y = other f(x), of inputs x, other */
uint64_t half_table_product_scratch(const op_call *c, int threads);
void half_table_product(const op_call *c, half_table_bodies of);

/* The gradients of y = other f(x), of inputs x, other, dy: dx = (dy other) f'(x) and dother = dy f(x) */
uint64_t half_table_gradients_scratch(const op_call *c, int threads);
void half_table_gradients(const op_call *c, half_table_bodies of);
