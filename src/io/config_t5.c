/* config.json of T5 and mT5. */
#include <string.h>

#include "io/config_families.h"

static const struct {
    const char *name;
    bool gated;
    t5_activation activation;
} feeds[] = { { "relu", false, T5_RELU },
              { "gated-gelu", true, T5_GELU_TANH }, /* what these files call so was always by tanh */
              { "gated-gelu_new", true, T5_GELU_TANH },
              { "gated-silu", true, T5_SILU },
              { "gelu", false, T5_GELU },
              { "gelu_new", false, T5_GELU_TANH },
              { "silu", false, T5_SILU } };

static bool is_mt5(const t5_config *c) { return strcmp(c->type, "mt5") == 0; }

static status read_feed(json_value root, t5_config *c) {
    const char *name = is_mt5(c) ? "gated-gelu" : "relu";
    json_value v;
    TRY(json_optional_string(root, "feed_forward_proj", &name));
    for (size_t i = 0; i < sizeof feeds / sizeof *feeds; i++) {
        c->gated = feeds[i].gated, c->activation = feeds[i].activation;
        if (strcmp(name, feeds[i].name) == 0) return STATUS_OK;
    }
    TRY(json_get(root, "feed_forward_proj", &v));
    return json_wrong(v, "is '%.40s'; supported are relu, gelu, silu, gated-gelu and gated-silu", name);
}

status config_t5_read(json_value root, t5_config *c) {
    const struct {
        const char *key;
        int64_t *size;
    } sizes[] = {
        { "num_layers", &c->layers }, { "num_heads", &c->heads }, { "d_kv", &c->head_size },
        { "d_model", &c->channels },  { "d_ff", &c->inner },      { "vocab_size", &c->vocabulary }
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(json_get_integer(root, sizes[i].key, 1, INT32_MAX, sizes[i].size));
    c->decoder_layers = c->layers;
    c->context = 512, c->buckets = 32, c->farthest = 128;
    c->dropout = 0.1, c->epsilon = 1e-6, c->factor = 1;
    c->tied = !is_mt5(c);
    TRY(json_optional_integer(root, "num_decoder_layers", 1, INT32_MAX, &c->decoder_layers));
    TRY(json_optional_integer(root, "n_positions", 1, INT32_MAX, &c->context));
    TRY(json_optional_integer(root, "relative_attention_num_buckets", 1, INT32_MAX, &c->buckets));
    TRY(json_optional_integer(root, "relative_attention_max_distance", 1, INT32_MAX, &c->farthest));
    TRY(read_feed(root, c));
    TRY(model_config_dropout(root, "dropout_rate", &c->dropout));
    TRY(json_optional_number(root, "layer_norm_epsilon", 0, 1, &c->epsilon));
    TRY(json_optional_number(root, "initializer_factor", 0, 1000, &c->factor));
    TRY(json_optional_bool(root, "tie_word_embeddings", &c->tied));
    TRY(json_optional_integer(root, "pad_token_id", 0, INT32_MAX, &c->start)); /* unless another is said */
    TRY(json_optional_integer(root, "decoder_start_token_id", 0, INT32_MAX, &c->start));
    c->scaled = c->tied; /* older files say it so */
    return json_optional_bool(root, "scale_decoder_outputs", &c->scaled);
}

void config_t5_tokens(json_value root, families_tokens *t) {
    if (!json_says(root, "pad_token_id")) t->has_padding = true, t->padding = 0;
    if (!json_says(root, "eos_token_id")) t->ends = 1, t->end[0] = 1;
}

bool config_t5_knows(const char *key) {
    static const char *const keys[] = { "num_layers",
                                        "num_decoder_layers",
                                        "num_heads",
                                        "d_kv",
                                        "d_model",
                                        "d_ff",
                                        "vocab_size",
                                        "n_positions",
                                        "relative_attention_num_buckets",
                                        "relative_attention_max_distance",
                                        "feed_forward_proj",
                                        "dense_act_fn",
                                        "is_gated_act",
                                        "is_encoder_decoder",
                                        "dropout_rate",
                                        "classifier_dropout",
                                        "layer_norm_epsilon",
                                        "initializer_factor",
                                        "decoder_start_token_id",
                                        "scale_decoder_outputs",
                                        "output_past" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static const char *feed_name(const t5_config *c) {
    for (size_t i = 0; i < sizeof feeds / sizeof *feeds; i++)
        if (feeds[i].gated == c->gated && feeds[i].activation == c->activation) return feeds[i].name;
    return "relu";
}

void config_t5_put(json_writer *w, const t5_config *c) {
    json_begin_array(w, "architectures");
    json_put_string(w, NULL, is_mt5(c) ? "MT5ForConditionalGeneration" : "T5ForConditionalGeneration");
    json_end_array(w);
    json_put_string(w, "model_type", c->type);
    json_put_bool(w, "is_encoder_decoder", true);
    json_put_integer(w, "decoder_start_token_id", c->start);
    json_put_integer(w, "num_layers", c->layers);
    json_put_integer(w, "num_decoder_layers", c->decoder_layers);
    json_put_integer(w, "num_heads", c->heads);
    json_put_integer(w, "d_kv", c->head_size);
    json_put_integer(w, "d_model", c->channels);
    json_put_integer(w, "d_ff", c->inner);
    json_put_integer(w, "vocab_size", c->vocabulary);
    json_put_integer(w, "n_positions", c->context);
    json_put_integer(w, "relative_attention_num_buckets", c->buckets);
    json_put_integer(w, "relative_attention_max_distance", c->farthest);
    json_put_string(w, "feed_forward_proj", feed_name(c));
    json_put_real(w, "dropout_rate", c->dropout);
    json_put_real(w, "layer_norm_epsilon", c->epsilon);
    json_put_real(w, "initializer_factor", c->factor);
    json_put_bool(w, "tie_word_embeddings", c->tied);
    json_put_bool(w, "scale_decoder_outputs", c->scaled);
}
