/* The plain C of attention and its gradient, query by query and in double: the reference of both ops. */
#pragma once

#include "ops/attention/attention_view.h"

/* A row of softmax: probability of a key = exp(score - top) / sum. sum is 0 where no key is seen. */
typedef struct {
    double top, sum;
} attention_reference_row;

attention_reference_row attention_reference_softmax(const attention_view *v, int64_t b, int64_t h, int64_t t);
double attention_reference_score(const attention_view *v, int64_t b, int64_t h, int64_t t, int64_t s);

/* y of one query, from its softmax; `sum` has room for D numbers. */
void attention_reference_mix(const attention_view *v, const int64_t bht[3], attention_reference_row row,
                             double *sum, const attention_place *y);

/* The gradient. Probabilities are those in `probs`; where probs is NULL they are exp(score - lse), and the
 * sum of probability times slope is taken from y, with which it is dy y. */
typedef struct {
    attention_view view;
    attention_outputs out;
    attention_place dy, y;     /* y: only without probs */
    const op_arg *probs, *lse; /* (B,H,T,S), (B,H,T) */
    double *scratch;           /* attention_reference_scratch bytes */
} attention_reference_gradient;

uint64_t attention_reference_scratch(const attention_sizes *n);
void attention_reference_backward(const attention_reference_gradient *r);
