/* Sizes of GPT-2s: presets, and what makes a model. */
#include <string.h>

#include "models/check.h"
#include "models/gpt2.h"

gpt2_config gpt2_default(void) {
    return (gpt2_config){ .epsilon = 1e-5, .deviation = 0.02, .tied = true, .tanh = true };
}

static const struct {
    const char *name;
    int64_t layers, heads, channels, context, vocabulary;
    double dropout;
} presets[] = {
    { "gpt2", 12, 12, 768, 1024, 50257, 0 },        { "gpt2-medium", 24, 16, 1024, 1024, 50257, 0 },
    { "gpt2-large", 36, 20, 1280, 1024, 50257, 0 }, { "gpt2-xl", 48, 25, 1600, 1024, 50257, 0 },
    { "char-small", 4, 4, 128, 256, 256, 0 },       { "char-gpt", 6, 6, 384, 256, 256, 0.2 },
};

bool gpt2_preset(const char *name, gpt2_config *c) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(presets[i].name, name) != 0) continue;
        *c = gpt2_default();
        c->layers = presets[i].layers, c->heads = presets[i].heads, c->channels = presets[i].channels;
        c->context = presets[i].context, c->vocabulary = presets[i].vocabulary;
        c->inner = 4 * c->channels;
        c->dropout_embedding = c->dropout_attention = c->dropout_residual = presets[i].dropout;
        return true;
    }
    return false;
}

const char *gpt2_preset_names(void) { return "gpt2, gpt2-medium, gpt2-large, gpt2-xl, char-small, char-gpt"; }

status gpt2_check(const gpt2_config *c) {
    const model_range sizes[] = {
        { "n_layer", c->layers, 1, 1024 },           { "n_head", c->heads, 1, 1024 },
        { "n_embd", c->channels, 1, 1 << 20 },       { "n_positions", c->context, 1, 1 << 24 },
        { "vocab_size", c->vocabulary, 1, 1 << 26 }, { "n_inner", c->inner, 1, 1 << 22 }
    };
    TRY(MODEL_CHECK_RANGES(sizes));
    TRY(model_check_heads("n_head", c->heads, "n_embd", c->channels));
    const double dropout[] = { c->dropout_embedding, c->dropout_attention, c->dropout_residual };
    TRY(model_check_dropout(dropout, sizeof dropout / sizeof *dropout));
    TRY(model_check_epsilon("layer_norm_epsilon", c->epsilon));
    return model_check_deviation(c->deviation);
}
