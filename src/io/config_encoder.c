/* config.json of the encoders. BERT's and RoBERTa's have the same keys, DistilBERT's has older ones. */
#include <string.h>

#include "io/config_families.h"

static bool is(const encoder_config *c, const char *type) { return strcmp(c->kind->type, type) == 0; }

/* A size or a probability, and what DistilBERT calls it. */
enum {
    LAYERS,
    HEADS,
    CHANNELS,
    INNER,
    POSITIONS,
    VOCABULARY,
    HIDDEN_DROP,
    ATTENTION_DROP,
    ACTIVATION,
    HEAD_DROP,
    KEYS
};
static const char *const keys[2][KEYS] = {
    { "num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size",
      "max_position_embeddings", "vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob",
      "hidden_act", "classifier_dropout" },
    { "n_layers", "n_heads", "dim", "hidden_dim", "max_position_embeddings", "vocab_size", "dropout",
      "attention_dropout", "activation", "seq_classif_dropout" }
};

/* What is dropped before a head's products where config.json does not say it. */
static double usual_head_dropout(const encoder_config *c) { return is(c, "distilbert") ? 0.2 : c->dropout; }

static const char *const *keys_of(const encoder_config *c) { return keys[is(c, "distilbert")]; }

static status read_sizes(json_value root, encoder_config *c) {
    int64_t *const sizes[] = {
        &c->layers, &c->heads, &c->channels, &c->inner, &c->positions, &c->vocabulary
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(json_get_integer(root, keys_of(c)[i], 1, INT32_MAX, sizes[i]));
    c->types = c->kind->types ? 2 : 0;
    return c->kind->types ? json_optional_integer(root, "type_vocab_size", 1, INT32_MAX, &c->types)
                          : STATUS_OK;
}

static status read_tokens(json_value root, encoder_config *c) {
    c->padding = c->kind->after_padding;
    c->mask = encoder_usual_mask(c->kind, c->vocabulary);
    TRY(json_optional_integer(root, "pad_token_id", 0, INT32_MAX, &c->padding));
    return json_optional_integer(root, "mask_token_id", 0, INT32_MAX, &c->mask);
}

static status read_activation(json_value root, encoder_config *c) {
    static const struct {
        const char *name;
        bool tanh;
    } known[] = { { "gelu", false },
                  { "gelu_python", false },
                  { "gelu_new", true },
                  { "gelu_fast", true },
                  { "gelu_pytorch_tanh", true } };
    const char *name = known[0].name, *key = keys_of(c)[ACTIVATION];
    json_value v;
    TRY(json_optional_string(root, key, &name));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        c->tanh = known[i].tanh;
        if (strcmp(name, known[i].name) == 0) return STATUS_OK;
    }
    TRY(json_get(root, key, &v));
    return json_wrong(v, "is '%.40s'; supported are gelu, gelu_new and gelu_pytorch_tanh", name);
}

/* Variants that would change what is computed. */
static status refuse_variants(json_value root) {
    static const struct {
        const char *key;
        bool usual;
        const char *why;
    } variants[] = { { "is_decoder", false, "is true; as a decoder it would see no token behind its own" },
                     { "add_cross_attention", false, "is true; an encoder attends to nothing but itself" },
                     { "tie_word_embeddings", true,
                       "is false; the head that fills gaps uses the table of words" } };
    json_value v;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        bool value = variants[i].usual;
        TRY(json_optional_bool(root, variants[i].key, &value));
        if (value == variants[i].usual) continue;
        TRY(json_get(root, variants[i].key, &v));
        return json_wrong(v, "%s, which no builder here has", variants[i].why);
    }
    const char *positions = "absolute";
    TRY(json_optional_string(root, "position_embedding_type", &positions));
    if (strcmp(positions, "absolute") == 0) return STATUS_OK;
    TRY(json_get(root, "position_embedding_type", &v));
    return json_wrong(v, "is '%.40s'; supported is absolute", positions);
}

status config_encoder_read(json_value root, encoder_config *c) {
    c->dropout = c->dropout_attention = 0.1;
    c->epsilon = 1e-12;
    c->deviation = 0.02;
    TRY(read_sizes(root, c));
    TRY(read_tokens(root, c));
    TRY(read_activation(root, c));
    TRY(refuse_variants(root));
    TRY(model_config_dropout(root, keys_of(c)[HIDDEN_DROP], &c->dropout));
    TRY(model_config_dropout(root, keys_of(c)[ATTENTION_DROP], &c->dropout_attention));
    c->dropout_head = usual_head_dropout(c);
    TRY(model_config_dropout(root, keys_of(c)[HEAD_DROP], &c->dropout_head));
    if (!is(c, "distilbert")) TRY(json_optional_number(root, "layer_norm_eps", 0, 1, &c->epsilon));
    return json_optional_number(root, "initializer_range", 0, 10, &c->deviation);
}

bool config_encoder_knows(const char *key) {
    static const char *const others[] = { "type_vocab_size",
                                          "mask_token_id",
                                          "layer_norm_eps",
                                          "initializer_range",
                                          "position_embedding_type",
                                          "add_cross_attention",
                                          "qa_dropout",
                                          "sinusoidal_pos_embds",
                                          "tie_weights_",
                                          "gradient_checkpointing" };
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(key, keys[0][i]) == 0 || strcmp(key, keys[1][i]) == 0) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0) return true;
    return strncmp(key, "pooler_", 7) == 0 || strcmp(key, "directionality") == 0;
}

void config_encoder_put(json_writer *w, const encoder_config *c) {
    const int64_t sizes[] = { c->layers, c->heads, c->channels, c->inner, c->positions, c->vocabulary };
    json_put_string(w, "model_type", c->kind->type);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) json_put_integer(w, keys_of(c)[i], sizes[i]);
    if (c->kind->types) json_put_integer(w, "type_vocab_size", c->types);
    json_put_integer(w, "pad_token_id", c->padding);
    json_put_integer(w, "mask_token_id", c->mask);
    json_put_string(w, keys_of(c)[ACTIVATION], c->tanh ? "gelu_new" : "gelu");
    json_put_real(w, keys_of(c)[HIDDEN_DROP], c->dropout);
    json_put_real(w, keys_of(c)[ATTENTION_DROP], c->dropout_attention);
    if (c->dropout_head != usual_head_dropout(c)) json_put_real(w, keys_of(c)[HEAD_DROP], c->dropout_head);
    if (!is(c, "distilbert")) json_put_real(w, "layer_norm_eps", c->epsilon);
    json_put_real(w, "initializer_range", c->deviation);
    json_put_bool(w, "tie_word_embeddings", true);
}
