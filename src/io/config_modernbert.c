/* config.json of ModernBERT. What is silent has the defaults of transformers. Older files keep what belongs
 * to rotary positions at the top, and say of how many layers one sees all; newer ones have rope_parameters
 * and layer_types. Both are read. */
#include <string.h>

#include "io/config_families.h"

static const char *const activations[] = {
    [MODERNBERT_GELU] = "gelu", [MODERNBERT_GELU_TANH] = "gelu_pytorch_tanh", [MODERNBERT_SILU] = "silu"
};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

static status read_activation(json_value root, const char *key, modernbert_activation *a) {
    const char *name = activations[MODERNBERT_GELU];
    json_value v;
    TRY(json_optional_string(root, key, &name));
    for (int i = 0; i < ACTIVATIONS; i++) {
        *a = (modernbert_activation)i;
        if (strcmp(name, activations[i]) == 0) return STATUS_OK;
    }
    TRY(json_get(root, key, &v));
    return json_wrong(v, "is '%.40s'; supported are gelu, gelu_pytorch_tanh and silu", name);
}

static status read_sizes(json_value root, modernbert_config *c) {
    const struct {
        const char *key;
        int64_t *size, usual;
    } sizes[] = { { "num_hidden_layers", &c->layers, 22 },
                  { "num_attention_heads", &c->heads, 12 },
                  { "hidden_size", &c->channels, 768 },
                  { "intermediate_size", &c->inner, 1152 },
                  { "max_position_embeddings", &c->context, 8192 },
                  { "vocab_size", &c->vocabulary, 50368 },
                  { "local_attention", &c->local, 128 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *sizes[i].size = sizes[i].usual;
        TRY(json_optional_integer(root, sizes[i].key, 1, INT32_MAX, sizes[i].size));
    }
    return STATUS_OK;
}

static status read_tokens(json_value root, modernbert_config *c) {
    enum { ITS_PADDING = 50283 };
    c->padding = c->vocabulary > ITS_PADDING ? ITS_PADDING : 0;
    c->mask = modernbert_usual_mask(c->vocabulary);
    TRY(json_optional_integer(root, "pad_token_id", 0, INT32_MAX, &c->padding));
    return json_optional_integer(root, "mask_token_id", 0, INT32_MAX, &c->mask);
}

static void set_far(modernbert_config *c, int64_t layer) {
    if (layer < MODERNBERT_MOST_LAYERS) c->far[layer / 64] |= UINT64_C(1) << (layer % 64);
}

static status read_layers(json_value root, modernbert_config *c) {
    json_value list;
    size_t count;
    int64_t every = 3;
    TRY(json_optional_integer(root, "global_attn_every_n_layers", 1, INT32_MAX, &every));
    if (!json_find(root, "layer_types", &list)) {
        for (int64_t i = 0; i < c->layers && i < MODERNBERT_MOST_LAYERS; i += every) set_far(c, i);
        return STATUS_OK;
    }
    TRY(json_as_array(list, &count));
    if ((int64_t)count != c->layers)
        return json_wrong(list, "has %zu items; it must be as long as num_hidden_layers, %lld", count,
                          (long long)c->layers);
    for (size_t i = 0; i < count; i++) {
        const char *type;
        TRY(json_as_string(json_item(list, i), &type));
        if (strcmp(type, "full_attention") == 0)
            set_far(c, (int64_t)i);
        else if (strcmp(type, "sliding_attention") != 0)
            return json_wrong(json_item(list, i),
                              "is '%.40s'; it must be full_attention or sliding_attention", type);
    }
    return STATUS_OK;
}

static status read_stretch(json_value rope, modernbert_config *c) {
    const char *kind = "default";
    TRY(json_as_object(rope));
    TRY(json_optional_string(rope, "type", &kind));
    TRY(json_optional_string(rope, "rope_type", &kind));
    if (strcmp(kind, "default") != 0)
        c->untrained = "its rotary positions are stretched, which its builder does not know";
    return STATUS_OK;
}

static status read_rope(json_value ropes, const char *key, modernbert_config *c, double *theta) {
    json_value rope;
    if (!json_find(ropes, key, &rope)) return STATUS_OK;
    TRY(read_stretch(rope, c));
    return json_optional_number(rope, "rope_theta", 1, 1e12, theta);
}

static status read_rotary(json_value root, modernbert_config *c) {
    json_value v;
    c->theta = 160000, c->near_theta = 10000;
    TRY(json_optional_number(root, "global_rope_theta", 1, 1e12, &c->theta));
    TRY(json_optional_number(root, "local_rope_theta", 1, 1e12, &c->near_theta));
    if (json_find(root, "rope_scaling", &v)) TRY(read_stretch(v, c));
    if (!json_find(root, "rope_parameters", &v)) return STATUS_OK;
    TRY(read_stretch(v, c)); /* as one for all layers, which transformers does not know here */
    TRY(read_rope(v, "full_attention", c, &c->theta));
    return read_rope(v, "sliding_attention", c, &c->near_theta);
}

static status read_choices(json_value root, modernbert_config *c) {
    const struct {
        const char *key;
        bool *choice, usual;
    } choices[] = {
        { "attention_bias", &c->bias_attention, false }, { "mlp_bias", &c->bias_feed, false },
        { "norm_bias", &c->bias_norm, false },           { "classifier_bias", &c->bias_head, false },
        { "decoder_bias", &c->bias_words, true },        { "tie_word_embeddings", &c->tied, true }
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        *choices[i].choice = choices[i].usual;
        TRY(json_optional_bool(root, choices[i].key, choices[i].choice));
    }
    return STATUS_OK;
}

static status read_dropouts(json_value root, modernbert_config *c) {
    TRY(model_config_dropout(root, "embedding_dropout", &c->dropout_embedding));
    TRY(model_config_dropout(root, "attention_dropout", &c->dropout_attention));
    TRY(model_config_dropout(root, "mlp_dropout", &c->dropout_feed));
    return model_config_dropout(root, "classifier_dropout", &c->dropout_head);
}

static status read_head(json_value root, modernbert_config *c) {
    const char *pooling = "cls";
    bool sparse = false;
    json_value v;
    TRY(read_activation(root, "classifier_activation", &c->judgment));
    TRY(json_optional_string(root, "classifier_pooling", &pooling));
    c->judges_mean = strcmp(pooling, "mean") == 0;
    if (!c->judges_mean && strcmp(pooling, "cls") != 0) {
        TRY(json_get(root, "classifier_pooling", &v));
        return json_wrong(v, "is '%.40s'; it must be cls or mean", pooling);
    }
    TRY(json_optional_bool(root, "sparse_prediction", &sparse));
    if (!sparse) return STATUS_OK;
    TRY(json_get(root, "sparse_prediction", &v));
    return json_wrong(v, "is true; logits of the hidden tokens alone have no builder here");
}

status config_modernbert_read(json_value root, modernbert_config *c) {
    c->epsilon = 1e-5, c->deviation = 0.02;
    TRY(read_sizes(root, c));
    TRY(read_tokens(root, c));
    TRY(read_layers(root, c));
    TRY(read_rotary(root, c));
    TRY(read_activation(root, "hidden_activation", &c->activation));
    TRY(read_choices(root, c));
    TRY(read_dropouts(root, c));
    TRY(read_head(root, c));
    TRY(json_optional_number(root, "norm_eps", 0, 1, &c->epsilon));
    return json_optional_number(root, "initializer_range", 0, 10, &c->deviation);
}

bool config_modernbert_knows(const char *key) {
    static const char *const keys[] = {
        "num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size",
        "max_position_embeddings", "vocab_size", "local_attention", "mask_token_id",
        "global_attn_every_n_layers", "layer_types", "global_rope_theta", "local_rope_theta", "rope_scaling",
        "rope_parameters", "hidden_activation", "attention_bias", "mlp_bias", "norm_bias", "decoder_bias",
        "embedding_dropout", "attention_dropout", "mlp_dropout", "classifier_dropout",
        "classifier_activation", "classifier_bias", "classifier_pooling", "sparse_prediction", "norm_eps",
        "initializer_range",
        /* and what changes nothing here */
        "sparse_pred_ignore_index", "initializer_cutoff_factor", "deterministic_flash_attn",
        "reference_compile", "repad_logits_with_grad", "gradient_checkpointing", "position_embedding_type",
        "layer_norm_eps", "is_encoder_decoder", "cls_token_id", "sep_token_id"
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

/* ---- writing ---- */

static void put_rope(json_writer *w, const char *key, double theta) {
    json_begin_object(w, key);
    json_put_string(w, "rope_type", "default");
    json_put_number(w, "rope_theta", theta);
    json_end_object(w);
}

/* How a file stretches positions is not kept: such a model is not written. */
static void put_rotary(json_writer *w, const modernbert_config *c) {
    json_put_number(w, "global_rope_theta", c->theta);
    json_put_number(w, "local_rope_theta", c->near_theta);
    json_begin_object(w, "rope_parameters");
    put_rope(w, "full_attention", c->theta);
    put_rope(w, "sliding_attention", c->near_theta);
    json_end_object(w);
}

static void put_layers(json_writer *w, const modernbert_config *c) {
    json_begin_array(w, "layer_types");
    for (int64_t i = 0; i < c->layers; i++)
        json_put_string(w, NULL, modernbert_sees_far(c, i) ? "full_attention" : "sliding_attention");
    json_end_array(w);
}

void config_modernbert_put(json_writer *w, const modernbert_config *c) {
    json_put_string(w, "model_type", "modernbert");
    json_put_integer(w, "num_hidden_layers", c->layers);
    json_put_integer(w, "num_attention_heads", c->heads);
    json_put_integer(w, "hidden_size", c->channels);
    json_put_integer(w, "intermediate_size", c->inner);
    json_put_integer(w, "max_position_embeddings", c->context);
    json_put_integer(w, "vocab_size", c->vocabulary);
    json_put_integer(w, "local_attention", c->local);
    json_put_integer(w, "pad_token_id", c->padding);
    json_put_integer(w, "mask_token_id", c->mask);
    put_layers(w, c);
    put_rotary(w, c);
    json_put_string(w, "hidden_activation", activations[c->activation]);
    json_put_string(w, "classifier_activation", activations[c->judgment]);
    json_put_string(w, "classifier_pooling", c->judges_mean ? "mean" : "cls");
    json_put_bool(w, "attention_bias", c->bias_attention);
    json_put_bool(w, "mlp_bias", c->bias_feed);
    json_put_bool(w, "norm_bias", c->bias_norm);
    json_put_bool(w, "classifier_bias", c->bias_head);
    json_put_bool(w, "decoder_bias", c->bias_words);
    json_put_real(w, "embedding_dropout", c->dropout_embedding);
    json_put_real(w, "attention_dropout", c->dropout_attention);
    json_put_real(w, "mlp_dropout", c->dropout_feed);
    json_put_real(w, "classifier_dropout", c->dropout_head);
    json_put_real(w, "norm_eps", c->epsilon);
    json_put_real(w, "initializer_range", c->deviation);
    json_put_bool(w, "tie_word_embeddings", c->tied);
}
