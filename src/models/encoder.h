/* Encoders that learn by filling gaps: BERT, RoBERTa (also XLM-R, CamemBERT and data2vec), DistilBERT. Every
 * token sees all others; some tokens of a sample are hidden (data/masking.h), and the labels are what stood
 * there.
 *
 *     x = drop(norm(word + type + position))             type 0, unless samples say which (model.typed)
 *     x = norm(x + drop(o(attend x)));  x = norm(x + drop(down(gelu(up x))))        in each block
 *     logits = norm(gelu(dense x)) words' + bias, or of a classifier: drop(x) W' + b for every token
 *
 * A kind is what a model_type fixes, the configuration what a config.json may choose. Names and layouts of
 * the parameters are those of transformers' models for masked language modelling: products are x W' + b with
 * W of (out, in). Papers: Devlin et al., arXiv:1810.04805 (BERT); Liu et al., arXiv:1907.11692 (RoBERTa);
 * Sanh et al., arXiv:1910.01108 (DistilBERT); Conneau et al., arXiv:1911.02116 (XLM-R); Baevski et al.,
 * arXiv:2202.03555 (data2vec). */
#pragma once

#include "models/model.h"

/* Names without ".weight". Those of a block follow "LAYERS.n.". */
typedef struct {
    const char *type, *architecture;                       /* "bert", "BertForMaskedLM" */
    const char *words, *positions, *types, *norm, *layers; /* types NULL: none */
    const char *q, *k, *v, *o, *attention_norm, *up, *down, *feed_norm;
    const char *head, *head_norm, *head_bias; /* head_bias: the whole name */
    const char *judge_layer, *judge;          /* of a head that judges samples (models/head.h) */
    bool judge_drops_first, judge_relu;       /* dropout before that layer too; relu, else tanh behind it */
    bool after_padding;                       /* the first position is the one behind that of padding */
    bool attended_whole;                      /* no dropout between attention and its norm */
    bool head_erf;                            /* the head's activation is GELU, whatever the blocks have */
    bool mask_is_last; /* where config.json is silent; else of published vocabularies */
} encoder_kind;

enum { ENCODER_MOST_LAYERS = 1024 };

typedef struct {
    const encoder_kind *kind;
    int64_t layers, heads, channels, inner, positions, vocabulary, types;
    int64_t padding, mask; /* ids of tokens */
    int64_t labels;        /* of a classifier of tokens, which is estimated only; 0: it fills gaps */
    bool tanh;             /* GELU's tanh form */
    double dropout, dropout_attention;
    double dropout_head; /* of a head that judges samples */
    double epsilon, deviation;
    const char *untrained; /* why it plans only; NULL: it does not */
} encoder_config;

extern const encoder_kind encoder_kinds[];               /* end with type NULL */
const encoder_kind *encoder_kind_find(const char *type); /* NULL: no such */

/* What hides a token where nothing says so: 103 in the published vocabularies of word pieces, else the last
 * one. */
int64_t encoder_usual_mask(const encoder_kind *k, int64_t vocabulary);

/* Where the first token stands in the table of positions. */
static inline int64_t encoder_first_position(const encoder_config *c) {
    return c->kind->after_padding ? c->padding + 1 : 0;
}

/* STATUS_INVALID with a sentence, in the words of config.json, when the sizes do not make a model. */
status encoder_check(const encoder_config *c);

/* `c` must outlive the model. */
void encoder_model(const encoder_config *c, const char *name, model *m);
