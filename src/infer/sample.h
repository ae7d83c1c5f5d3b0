/* From logits to the next token. What is kept is found by counting, not by sorting, in memory of the
 * caller's.
 *
 * Probabilities are whole numbers: the likeliest token weighs 2^44, another one 2^44 exp((x - likeliest) /
 * temperature), rounded. So sums are exact in any order, and what is drawn is what sorting would find
 * (infer/sample_select.h). A token whose probability is less than 2^-45 of the likeliest one's is never
 * drawn.
 *
 * Logits are changed in this order: repetition penalty, presence and frequency penalties, biases; what is
 * not allowed is left out; then temperature, top_k, top_p of what top_k left, min_p. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { SAMPLE_NONE = -1, SAMPLE_LIKELIEST = 20, SAMPLE_BIASES = 300 };

/* Added to the logit of a token. */
typedef struct {
    int32_t id;
    float bias;
} sample_bias;

typedef struct {
    double temperature; /* 0: always the likeliest, the first of equals */
    int64_t top_k;      /* keep the likeliest of this number, and those equal to the last of them; 0: all */
    double top_p;       /* of these keep the fewest likeliest that have this share of their probability,
                           and those equal to the last of them; 1: all */
    double
        min_p; /* keep what is at least this times as probable as the likeliest; 0: all (arXiv:2407.01082) */
    double repetition_penalty; /* logits of tokens that were there before are divided by it if positive, and
                                  multiplied if negative; 1: nothing is done (arXiv:1909.05858) */
    /* Taken off the logits of tokens that the answer has, once, and for each time that it has them. */
    double presence_penalty, frequency_penalty;
    const sample_bias *biases; /* lent; at most SAMPLE_BIASES */
    uint32_t bias_count;
    bool logprobs;      /* tell the logarithm of the probability of what is drawn, */
    uint32_t likeliest; /* and so many of the likeliest with theirs */
    uint64_t seed;
} sample_options;

/* STATUS_INVALID with a sentence for what makes no sense. */
status sample_check(const sample_options *o);

/* What drawing may be asked for, which its memory depends on. */
typedef struct {
    bool changes; /* logits: by penalties, biases, or what is allowed */
    bool counts;  /* tokens that were there before */
} sample_needs;
sample_needs sample_needs_of(const sample_options *o);

/* Bytes that sample_next works in, aligned to 64; of each thread. */
uint64_t sample_bytes(const sample_needs *needs, int64_t vocabulary);

/* What a token is drawn from. */
typedef struct {
    const float *logits;
    const int32_t *ids;    /* the text so far; not looked at without a penalty */
    int64_t count, prompt; /* of ids; and the first of them that the answer did not bring */
    int64_t vocabulary;
    uint32_t position;       /* of the token in its text */
    const uint64_t *allowed; /* bit by token, from the lowest of the first word on; NULL: all */
    void *memory;            /* sample_bytes of what the options need */
} sample_from;

typedef struct {
    int32_t id;
    float logprob;
} sample_likely;

/* SAMPLE_NONE: nothing is allowed. Logarithms are of the model's own distribution: softmax(logits) before
 * anything was changed, at temperature 1. */
typedef struct {
    int32_t id;
    float logprob;                             /* where logarithms are asked for */
    int32_t count;                             /* of: */
    sample_likely likeliest[SAMPLE_LIKELIEST]; /* the likeliest first, the lower id first of equals */
} sample_drawn;

/* Draws from softmax(logits / temperature) over what is kept. The draw is a function of seed and position, so
 * it does not depend on what else is drawn. STATUS_FAILED when a logit is not finite. */
status sample_next(const sample_options *o, const sample_from *from, sample_drawn *drawn);
/* What is told of `id`, as if it had been drawn; the options say how much. STATUS_FAILED likewise. */
status sample_told(const sample_options *o, const sample_from *from, int32_t id, sample_drawn *told);
