/* ModernBERT, an encoder that learns by filling gaps as BERT does (models/encoder.h), with a decoder's parts:
 * norms before each half of a block, rotary positions, gated feed-forwards; of its layers some see all tokens
 * and the others those of a window to both sides, and the two kinds turn by angles of their own.
 *
 *     x = drop(norm word);  x += drop(o(attend(norm x)));  x += o(drop(f(gate n) up n)), n = norm x
 *     logits = norm(gelu(dense(norm x))) words' + bias,      or of a classifier: drop(the same) W' + b
 *
 * The first layer has no norm before its attention. A head that judges whole samples looks at the first
 * token. Names and layouts of the parameters are those of transformers' ModernBertForMaskedLM: Wqkv is q | k
 * | v, Wi is gate | up. Initial weights are its too, but that none are cut off (initializer_cutoff_factor).
 * Papers: Warner et al., arXiv:2412.13663; windows: Beltagy et al., arXiv:2004.05150. */
#pragma once

#include "models/model.h"

enum { MODERNBERT_MOST_LAYERS = 1024 };

typedef enum { MODERNBERT_GELU, MODERNBERT_GELU_TANH, MODERNBERT_SILU } modernbert_activation;

typedef struct {
    int64_t layers, heads, channels, inner, context, vocabulary;
    int64_t local;                              /* tokens that a window spans, both sides together */
    uint64_t far[MODERNBERT_MOST_LAYERS / 64];  /* bit per layer: it sees all */
    double theta, near_theta;                   /* of layers that see all, and of the others */
    modernbert_activation activation, judgment; /* of feed-forwards, and of the head's product */
    bool bias_attention, bias_feed, bias_norm, bias_head, bias_words; /* words: the logits' own */
    bool tied;
    bool judges_mean;      /* a head of whole samples looks at the mean of all tokens, which is not built */
    int64_t padding, mask; /* ids of tokens */
    int64_t labels;        /* of a classifier of tokens, which is estimated only; 0: it fills gaps */
    double dropout_embedding, dropout_attention, dropout_feed;
    double dropout_head; /* of a classifier */
    double epsilon, deviation;
    const char *untrained; /* why it plans only; NULL: it does not */
} modernbert_config;

static inline bool modernbert_sees_far(const modernbert_config *c, int64_t layer) {
    return c->far[layer / 64] >> (layer % 64) & 1u;
}

/* What hides a token where nothing says so: that of the published vocabulary, else the last one. */
int64_t modernbert_usual_mask(int64_t vocabulary);

/* STATUS_INVALID with a sentence, in the words of config.json, when the sizes do not make a model. */
status modernbert_check(const modernbert_config *c);

/* `c` must outlive the model. */
void modernbert_model(const modernbert_config *c, const char *name, model *m);
