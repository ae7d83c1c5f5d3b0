/* GPT-2: a decoder of pre-norm blocks with learned positions.
 * Paper: Radford et al., "Language models are unsupervised multitask learners", 2019. Names and layout of the
 * parameters are those of Hugging Face's GPT2LMHeadModel: products are x W + b with W of shape (in, out). */
#pragma once

#include "models/model.h"

typedef struct {
    int64_t layers, heads, channels, context, vocabulary;
    int64_t inner; /* width of the feed-forward part; 4 channels by default */
    double dropout_embedding, dropout_attention, dropout_residual;
    double epsilon;   /* of the norms */
    double deviation; /* of initial weights */
    bool tied;        /* logits use the token embedding */
    bool tanh;        /* GELU's tanh form */
} gpt2_config;

/* What the paper's models share; the sizes are left 0. */
gpt2_config gpt2_default(void);

/* STATUS_INVALID with a sentence when the sizes do not make a model. */
status gpt2_check(const gpt2_config *c);

/* Presets: gpt2, gpt2-medium, gpt2-large, gpt2-xl, char-small, char-gpt. False: no such preset. */
bool gpt2_preset(const char *name, gpt2_config *c);
const char *gpt2_preset_names(void); /* for messages */

/* `c` must outlive the model. */
void gpt2_model(const gpt2_config *c, const char *name, model *m);
