/* config.json of GPT-2. */
#include <string.h>

#include "io/config_families.h"

static status read_sizes(json_value root, gpt2_config *c) {
    const struct {
        const char *key;
        int64_t *size;
    } sizes[] = { { "n_layer", &c->layers },
                  { "n_head", &c->heads },
                  { "n_embd", &c->channels },
                  { "n_positions", &c->context },
                  { "vocab_size", &c->vocabulary } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(json_get_integer(root, sizes[i].key, 1, INT32_MAX, sizes[i].size));
    c->inner = 4 * c->channels;
    return json_optional_integer(root, "n_inner", 1, INT32_MAX, &c->inner);
}

static status read_activation(json_value root, gpt2_config *c) {
    static const struct {
        const char *name;
        bool tanh;
    } known[] = { { "gelu_new", true }, { "gelu_pytorch_tanh", true }, { "gelu", false } };
    const char *name = known[0].name;
    TRY(json_optional_string(root, "activation_function", &name));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        c->tanh = known[i].tanh;
        if (strcmp(name, known[i].name) == 0) return STATUS_OK;
    }
    json_value v;
    TRY(json_get(root, "activation_function", &v));
    return json_wrong(v, "is '%.40s'; supported are gelu_new, gelu_pytorch_tanh and gelu", name);
}

/* Variants of the architecture that would change what is computed. */
static status refuse_variants(json_value root) {
    static const struct {
        const char *key;
        bool usual;
    } variants[] = { { "scale_attn_weights", true },
                     { "scale_attn_by_inverse_layer_idx", false },
                     { "add_cross_attention", false } };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        bool value = variants[i].usual;
        json_value v;
        TRY(json_optional_bool(root, variants[i].key, &value));
        if (value == variants[i].usual) continue;
        TRY(json_get(root, variants[i].key, &v));
        return json_wrong(v, "is %s; that variant of GPT-2 is not supported", value ? "true" : "false");
    }
    return STATUS_OK;
}

status config_gpt2_read(json_value root, gpt2_config *c) {
    *c = gpt2_default();
    c->dropout_embedding = c->dropout_attention = c->dropout_residual = 0.1; /* transformers' default */
    TRY(read_sizes(root, c));
    TRY(read_activation(root, c));
    TRY(refuse_variants(root));
    TRY(model_config_dropout(root, "embd_pdrop", &c->dropout_embedding));
    TRY(model_config_dropout(root, "attn_pdrop", &c->dropout_attention));
    TRY(model_config_dropout(root, "resid_pdrop", &c->dropout_residual));
    TRY(json_optional_number(root, "layer_norm_epsilon", 0, 1, &c->epsilon));
    TRY(json_optional_number(root, "initializer_range", 0, 10, &c->deviation));
    return json_optional_bool(root, "tie_word_embeddings", &c->tied);
}

/* ---- writing it ---- */

void config_gpt2_put(json_writer *w, const gpt2_config *c) {
    json_put_string(w, "model_type", "gpt2");
    json_put_integer(w, "n_layer", c->layers);
    json_put_integer(w, "n_head", c->heads);
    json_put_integer(w, "n_embd", c->channels);
    json_put_integer(w, "n_positions", c->context);
    json_put_integer(w, "n_ctx", c->context);
    json_put_integer(w, "vocab_size", c->vocabulary);
    if (c->inner == 4 * c->channels)
        json_put_null(w, "n_inner");
    else
        json_put_integer(w, "n_inner", c->inner);
    json_put_string(w, "activation_function", c->tanh ? "gelu_new" : "gelu");
    json_put_real(w, "embd_pdrop", c->dropout_embedding);
    json_put_real(w, "attn_pdrop", c->dropout_attention);
    json_put_real(w, "resid_pdrop", c->dropout_residual);
    json_put_real(w, "layer_norm_epsilon", c->epsilon);
    json_put_real(w, "initializer_range", c->deviation);
    json_put_bool(w, "scale_attn_weights", true);
    json_put_bool(w, "tie_word_embeddings", c->tied);
}

bool config_gpt2_knows(const char *key) {
    static const char *const keys[] = { "n_layer",
                                        "n_head",
                                        "n_embd",
                                        "n_positions",
                                        "n_ctx",
                                        "n_inner",
                                        "vocab_size",
                                        "activation_function",
                                        "scale_attn_weights",
                                        "scale_attn_by_inverse_layer_idx",
                                        "reorder_and_upcast_attn",
                                        "add_cross_attention",
                                        "embd_pdrop",
                                        "attn_pdrop",
                                        "resid_pdrop",
                                        "layer_norm_epsilon",
                                        "initializer_range" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return strncmp(key, "summary_", 8) == 0;
}
