/* T5, an encoder and a decoder that attends to it, and mT5.
 *
 *     x += drop(o(attend(norm x)));  [x += drop(o(attend(norm x, encoded)));]  x += drop(feed(norm x))
 *
 * Scores are not scaled; each stack has one table of biases by distance, which all of its blocks add. Norms
 * are root mean squares, nothing has a bias. Source and target of a sample are as long as the context; what
 * is behind a source's length nobody attends to.
 * Names and layouts of the parameters are those of transformers' T5ForConditionalGeneration.
 * Papers: Raffel et al., arXiv:1910.10683; gated units: Shazeer, arXiv:2002.05202. */
#pragma once

#include "models/model.h"

typedef enum { T5_RELU, T5_GELU, T5_GELU_TANH, T5_SILU } t5_activation;

typedef struct {
    const char *type; /* "t5", "mt5" */
    int64_t layers, decoder_layers, heads, head_size, channels, inner, context, vocabulary;
    int64_t buckets, farthest; /* of distances */
    bool gated, tied;
    bool scaled; /* what the head reads, by 1/sqrt(channels) */
    t5_activation activation;
    int64_t start;                   /* the token that an answer begins behind */
    double dropout, epsilon, factor; /* factor: of initial weights */
} t5_config;

/* The model_types that are read; NULL ends them. */
extern const char *const t5_types[];

/* STATUS_INVALID with a sentence, in the words of config.json, when the sizes do not make a model. */
status t5_check(const t5_config *c);

/* `c` must outlive the model. */
void t5_model(const t5_config *c, const char *name, model *m);
