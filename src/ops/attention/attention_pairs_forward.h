/* Attention's forward with products of bf16 as it is, on tiles (ops/attention/attention_pairs.h): the walk
 * over heads and blocks of queries for both ops, which differ in what they do with a block.
 *
 * The tiles of attention_tile.h and their order, with keys as rows and queries side by side. Products are
 * added up in f32 by the instruction; softmax is in f32 between them. Exponentials of scores are rounded to
 * bf16 before they are multiplied with the values, their sums are not. Threads share out heads, whose
 * operands come into the forms of tiles once: keys and values of a head, and the queries of 64 rows at a
 * time. So bits depend on no number of threads, on no cut between samples, and of a query on no other one. */
#pragma once

#include "ops/attention/attention_forward.h"
#include "ops/attention/attention_pairs.h"

/* What one thread works in; vectors are by query. */
typedef struct {
    uint16_t *keys;    /* rows of the head, */
    uint16_t *values;  /* turned, (wide,64) for each tile */
    float *loose;      /* (64,deep) words, for what is between two forms */
    uint32_t *queries; /* across */
    float *mixed;      /* (wide,64) the values so far, times the exponentials */
    float *top, *sum;  /* (64) the largest score so far, the exponentials' sum so far */
    float *keep;       /* (64,64) dropout */
    uint32_t *words;   /* its */
    float *own;        /* what the way asked for */
} attention_pairs_buffers;

typedef struct {
    const attention_forward *forward;
    const attention_pairs_kernel *kernel;
} attention_pairs_walk;

typedef struct {
    uint64_t (*floats)(const attention_view *v); /* of `own` */
    /* `tile` names the block's queries, which are there; top is minus infinity and sum 0. Leaves both, and in
     * mixed what times attention_share(sum) is the result. */
    void (*block)(const attention_pairs_walk *k, attention_tile tile, const attention_pairs_buffers *w);
} attention_pairs_way;

/* Bytes for so many threads; of operands of bf16. */
uint64_t attention_pairs_forward_scratch(const attention_view *v, const attention_pairs_way *way,
                                         int threads);
void attention_pairs_forward_run(const attention_forward *f, const attention_pairs_kernel *kernel,
                                 const attention_pairs_way *way, void *scratch);

/* ---- what ways do with a tile ---- */

/* scores (64,64), not scaled yet. */
void attention_pairs_multiply_keys(const attention_pairs_walk *k, const attention_tile *tile,
                                   const attention_pairs_buffers *w, float *scores);

/* Those become scores, and top follows. */
void attention_pairs_raise(const attention_view *v, const attention_tile *tile,
                           const attention_pairs_buffers *w, float *scores);

/* Scores become exponentials beneath top, which are added to sum. pairs (32,64): they in pairs of keys,
 * dropout on them, with zeros up to whole steps. `scores` has them, before dropout, where `keeps`, else
 * whatever. */
void attention_pairs_soften(const attention_view *v, const attention_tile *tile,
                            const attention_pairs_buffers *w, bool keeps, float *scores, uint32_t *pairs);

/* mixed = [mixed +] values times pairs. */
void attention_pairs_mix(const attention_pairs_walk *k, const attention_tile *tile,
                         const attention_pairs_buffers *w, const uint32_t *pairs, bool begun);

/* Row d of x (rows,64) times factor, by query. */
void attention_pairs_times(int64_t rows, const float *factor, float *x);
