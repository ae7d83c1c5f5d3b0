/* The vector that stands for a text: its tokens' hidden states, pooled as sentence-transformers does (Reimers
 * and Gurevych, arXiv:1908.10084; by weights of positions: Muennighoff, arXiv:2202.08904).
 *
 * Sums are in f64 and go in the order of positions, so the numbers do not depend on how a text was cut into
 * steps, nor on what stood beside it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
    POOLING_LAST,     /* of the last token, which has seen all of them */
    POOLING_FIRST,    /* of the first ("cls") */
    POOLING_MEAN,     /* of all, alike */
    POOLING_WEIGHTED, /* of all, the first once, the second twice ... */
} pooling_kind;

enum { POOLING_SENTENCE = 200 };
typedef struct {
    pooling_kind kind;
    bool normalizes;                /* the vector has length 1 */
    int64_t width;                  /* numbers of it */
    char refused[POOLING_SENTENCE]; /* why the folder's embeddings can't be had; "": they can */
} pooling;

const char *pooling_name(pooling_kind k); /* "last token", "first token", "mean", "weighted mean" */

/* What the folder's modules.json and its Pooling module's config.json say; 1_Pooling and 2_Normalize where
 * there is no modules.json. Where there is nothing of the kind: `usual`, and length 1; so too where
 * `directory` is NULL. What snug does not do is `refused`; STATUS_INVALID for files that can't be read. */
status pooling_read(const char *directory, pooling_kind usual, int64_t width, pooling *out);

/* Does every row of the text count? */
static inline bool pooling_reads_all(const pooling *p) { return p->kind != POOLING_LAST; }

/* The vector of one text while its rows come. */
typedef struct {
    const pooling *how;
    int64_t kept;    /* numbers that are told, the first ones */
    double *numbers; /* how->width, the caller's */
} pooled;

/* A vector that is cut to its first `kept` numbers (Kusupati et al., arXiv:2205.13147) is normalised as such;
 * 0: all of them. */
void pooling_begin(pooled *p, const pooling *how, int64_t kept, double *numbers);
/* Numbers [from, from + n) of the hidden state at `position`, of a text of `count` tokens. Each row comes
 * once: a text that is pooled is certain to end when it begins, so it is never put back. */
typedef struct {
    const float *numbers;
    int64_t from, n, position, count;
} pooled_part;
void pooling_add(pooled *p, const pooled_part *x);
/* All rows have come. STATUS_FAILED where a number is not finite. */
status pooling_end(pooled *p, int64_t count);
