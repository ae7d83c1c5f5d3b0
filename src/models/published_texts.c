/* Encoders and encoder-decoders, from the models' config.json on huggingface.co. */
#include <string.h>

#include "models/published.h"

static const struct {
    const char *name, *type;
    int64_t layers, heads, channels, inner, positions, vocabulary, types;
} encoders[] = { { "distilbert-base", "distilbert", 6, 12, 768, 3072, 512, 30522, 0 },
                 { "bert-base", "bert", 12, 12, 768, 3072, 512, 30522, 2 },
                 { "bert-large", "bert", 24, 16, 1024, 4096, 512, 30522, 2 },
                 { "roberta-base", "roberta", 12, 12, 768, 3072, 514, 50265, 1 },
                 { "roberta-large", "roberta", 24, 16, 1024, 4096, 514, 50265, 1 } };

static const struct {
    const char *name;
    int64_t layers, heads, head_size, channels, inner;
    bool flan; /* gated units, and a head of its own */
} encoder_decoders[] = {
    { "t5-small", 6, 8, 64, 512, 2048, false },      { "t5-base", 12, 12, 64, 768, 3072, false },
    { "t5-large", 24, 16, 64, 1024, 4096, false },   { "t5-3b", 24, 32, 128, 1024, 16384, false },
    { "t5-11b", 24, 128, 128, 1024, 65536, false },  { "flan-t5-small", 8, 6, 64, 512, 1024, true },
    { "flan-t5-base", 12, 12, 64, 768, 2048, true }, { "flan-t5-large", 24, 16, 64, 1024, 2816, true },
    { "flan-t5-xl", 24, 32, 64, 2048, 5120, true },  { "flan-t5-xxl", 24, 64, 64, 4096, 10240, true }
};

static const char *find_encoder(const char *name, model_config *c) {
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++) {
        if (strcmp(encoders[i].name, name) != 0) continue;
        const encoder_kind *kind = encoder_kind_find(encoders[i].type);
        *c = (model_config){ .family = FAMILY_ENCODER,
                             .encoder = { .kind = kind,
                                          .layers = encoders[i].layers,
                                          .heads = encoders[i].heads,
                                          .channels = encoders[i].channels,
                                          .inner = encoders[i].inner,
                                          .positions = encoders[i].positions,
                                          .vocabulary = encoders[i].vocabulary,
                                          .types = encoders[i].types,
                                          .padding = kind->after_padding,
                                          .mask = encoder_usual_mask(kind, encoders[i].vocabulary),
                                          .dropout = 0.1,
                                          .dropout_attention = 0.1,
                                          .epsilon = 1e-12,
                                          .deviation = 0.02,
                                          .untrained = "this name stands for its sizes only; give a "
                                                       "config.json, or a model directory" } };
        return encoders[i].name;
    }
    return NULL;
}

static const char *find_encoder_decoder(const char *name, model_config *c) {
    for (size_t i = 0; i < sizeof encoder_decoders / sizeof *encoder_decoders; i++) {
        if (strcmp(encoder_decoders[i].name, name) != 0) continue;
        bool flan = encoder_decoders[i].flan;
        *c = (model_config){ .family = FAMILY_T5,
                             .t5 = { .type = t5_types[0],
                                     .layers = encoder_decoders[i].layers,
                                     .decoder_layers = encoder_decoders[i].layers,
                                     .heads = encoder_decoders[i].heads,
                                     .head_size = encoder_decoders[i].head_size,
                                     .channels = encoder_decoders[i].channels,
                                     .inner = encoder_decoders[i].inner,
                                     .context = 512,
                                     .vocabulary = 32128,
                                     .buckets = 32,
                                     .farthest = 128,
                                     .gated = flan,
                                     .tied = !flan,
                                     .scaled = !flan,
                                     .activation = flan ? T5_GELU_TANH : T5_RELU,
                                     .dropout = 0.1,
                                     .epsilon = 1e-6,
                                     .factor = 1 } };
        return encoder_decoders[i].name;
    }
    return NULL;
}

bool published_texts_find(const char *text, model_config *c, const char **name) {
    const char *found = find_encoder(text, c);
    if (!found) found = find_encoder_decoder(text, c);
    if (found) *name = found;
    return found != NULL;
}
