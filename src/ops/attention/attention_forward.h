/* The walk of attention's forward over heads and blocks of queries, for both ops: they differ in what they do
 * with a block, and in what they keep for the gradient.
 *
 * Blocks are independent, so threads take them in any order. Operands of 16 bits are widened head by head,
 * and a thread then takes all blocks of its head. */
#pragma once

#include "ops/attention/attention_tile.h"

typedef struct {
    attention_view view;
    attention_place y;
    float *kept; /* the op's second output: probabilities (B,H,T,S), or lse (B,H,T) */
} attention_forward;

typedef struct {
    uint64_t (*floats)(const attention_view *v); /* of scratch for a block */
    /* `tile` names the block's queries; its keys are not set. */
    void (*block)(const attention_forward *f, attention_tile tile, float *scratch);
} attention_forward_way;

uint64_t attention_forward_scratch(const op_call *c, const attention_forward_way *way, int threads);
void attention_forward_run(const op_call *c, const attention_forward_way *way);
