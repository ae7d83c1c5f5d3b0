/* The gradient of attention over tiles, for both ops: they differ in where probabilities come from only. The
 * plain op reads them; the flash op makes them again from scores and the logarithm of their sum.
 *
 * Work is cut over the heads of keys: one owner walks all tiles of its queries and keys, and adds to its rows
 * of dq, dk and dv, in the order of the queries and of the keys. Where there are too few heads for the
 * threads, dq is made block of queries by block of queries and dk, dv tile of keys by tile of keys, which
 * computes probabilities twice but adds the same numbers in the same order: the bits do not depend on the
 * way. The gradient of a bias comes last, tile by tile: each is a sum over the samples, from 0, in their
 * order.
 */
#pragma once

#include "ops/attention/attention_tile.h"

typedef struct {
    attention_view view;
    attention_outputs out;
    attention_place dy, y; /* y: without probs */
    const float *probs;    /* (B,H,T,S), or NULL */
    const float *lse;      /* (B,H,T), without probs */
    void *scratch;         /* attention_gradient_scratch bytes */
    float *common;         /* set by attention_gradient_run */
} attention_gradient;

/* Fixed by D and the threads; with probs a number per (b,h,t) more, for what y tells without them. */
uint64_t attention_gradient_scratch(const attention_view *v, bool probs, int threads);
void attention_gradient_run(const attention_gradient *a);
