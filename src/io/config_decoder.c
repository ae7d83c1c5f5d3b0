/* config.json of the decoders. What is silent has its kind's defaults. Older files keep what belongs to
 * rotary positions at the top (rope_theta, rope_scaling, rotary_pct), newer ones in rope_parameters; both are
 * read and written. */
#include <math.h>
#include <string.h>

#include "io/config_families.h"

static const char *or_else(const char *key, const char *usual) { return key ? key : usual; }

static bool is(const decoder_config *c, const char *type) { return strcmp(c->kind->type, type) == 0; }

/* ---- sizes ---- */

static status read_sizes(json_value root, decoder_config *c) {
    const decoder_kind *k = c->kind;
    const char *kv_heads = or_else(k->keys.kv_heads, "num_key_value_heads");
    const struct {
        const char *key;
        int64_t *size, usual; /* 0: it must be there */
    } sizes[] = { { "num_hidden_layers", &c->layers, 0 },
                  { "num_attention_heads", &c->heads, 0 },
                  { "hidden_size", &c->channels, 0 },
                  { or_else(k->keys.inner, "intermediate_size"), &c->inner, k->inner_times },
                  { "max_position_embeddings", &c->context, k->context },
                  { "vocab_size", &c->vocabulary, 0 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *sizes[i].size = sizes[i].size == &c->inner ? sizes[i].usual * c->channels : sizes[i].usual;
        TRY((sizes[i].usual ? json_optional_integer : json_get_integer)(root, sizes[i].key, 1, INT32_MAX,
                                                                        sizes[i].size));
    }
    json_value heads;
    TRY(json_get(root, "num_attention_heads", &heads));
    bool silent = !json_says(root, kv_heads); /* null says: as many as heads */
    c->kv_heads = silent && k->kv_heads ? k->kv_heads : c->heads;
    TRY(json_optional_integer(root, kv_heads, 1, INT32_MAX, &c->kv_heads));
    c->head_size = k->head_size;
    TRY(json_optional_integer(root, "head_dim", 1, INT32_MAX, &c->head_size));
    if (c->head_size) return STATUS_OK;
    if (c->channels % c->heads)
        return json_wrong(
            heads, "is %lld and cannot share hidden_size %lld; it must be a divisor, or head_dim given",
            (long long)c->heads, (long long)c->channels);
    c->head_size = c->channels / c->heads;
    return STATUS_OK;
}

static status read_activation(json_value root, decoder_config *c) {
    static const struct {
        const char *name;
        decoder_activation value;
    } known[] = { { "silu", DECODER_SILU },           { "swish", DECODER_SILU },
                  { "gelu", DECODER_GELU },           { "gelu_new", DECODER_GELU_TANH },
                  { "gelu_fast", DECODER_GELU_TANH }, { "gelu_pytorch_tanh", DECODER_GELU_TANH },
                  { "relu2", DECODER_RELU2 } };
    const char *key = json_has(root, "hidden_activation") ? "hidden_activation"
                                                          : or_else(c->kind->keys.activation, "hidden_act"),
               *name = NULL;
    c->activation = c->kind->activation;
    TRY(json_optional_string(root, key, &name));
    bool by_tanh = is(c, "gemma"); /* what its files call "gelu" was always so */
    c->gelu_whole = name ? by_tanh || strcmp(name, "gelu_pytorch_tanh") == 0 : c->kind->spelling.gelu_whole;
    if (!name) return STATUS_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        c->activation = by_tanh && known[i].value == DECODER_GELU ? DECODER_GELU_TANH : known[i].value;
        bool gated = c->kind->gate && known[i].value == DECODER_RELU2; /* op_gated has none such */
        if (strcmp(name, known[i].name) == 0 && !gated) return STATUS_OK;
    }
    json_value v;
    TRY(json_get(root, key, &v));
    return json_wrong(v, "is '%.40s'; supported are silu, gelu, gelu_new and gelu_pytorch_tanh%s", name,
                      c->kind->gate ? "" : ", and relu2");
}

/* ---- rotary positions ---- */

/* Turns by stretched angles make scores smaller; this gives it back to both sides (arXiv:2309.00071, 3.4). */
static double yarn_gain(double factor, double scale) {
    return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1;
}

static status read_yarn(json_value rope, decoder_config *c) {
    rotary_angles_attributes *r = &c->rotary;
    double scale = 0, scale_all = 0;
    bool rounded = true;
    r->stretch = ROTARY_YARN;
    r->low = 1, r->high = 32, r->original = (double)c->context;
    TRY(json_get_number(rope, "factor", 1, 1e6, &r->factor));
    TRY(json_optional_number(rope, "beta_slow", 1e-6, 1e6, &r->low));
    TRY(json_optional_number(rope, "beta_fast", r->low * 1.000001, 1e7, &r->high));
    TRY(json_optional_number(rope, "original_max_position_embeddings", 1, 1e12, &r->original));
    TRY(json_optional_number(rope, "mscale", 0, 1e6, &scale));
    TRY(json_optional_number(rope, "mscale_all_dim", 0, 1e6, &scale_all));
    TRY(json_optional_bool(rope, "truncate", &rounded));
    r->unrounded = !rounded;
    r->gain = scale > 0 && scale_all > 0 ? yarn_gain(r->factor, scale) / yarn_gain(r->factor, scale_all)
                                         : yarn_gain(r->factor, 1);
    return json_optional_number(rope, "attention_factor", 1e-6, 1e6, &r->gain);
}

static status read_factors(json_value rope, const char *key, float factors[ROTARY_MOST_TURNED / 2]) {
    json_value list;
    size_t count;
    double factor;
    TRY(json_get(rope, key, &list));
    TRY(json_as_array(list, &count));
    if (count > ROTARY_MOST_TURNED / 2)
        return json_wrong(list, "has %zu numbers; it may have %d", count, ROTARY_MOST_TURNED / 2);
    for (size_t i = 0; i < count; i++) {
        TRY(json_as_number(json_item(list, i), 1e-6, 1e9, &factor));
        factors[i] = (float)factor;
    }
    return STATUS_OK;
}

static status read_long(json_value rope, decoder_config *c) {
    rotary_angles_attributes *r = &c->rotary;
    r->stretch = ROTARY_LONG;
    TRY(read_factors(rope, "short_factor", r->near));
    TRY(read_factors(rope, "long_factor", r->far));
    TRY(json_optional_number(rope, "factor", 1e-6, 1e6, &r->factor));
    TRY(json_optional_number(rope, "attention_factor", 1e-6, 1e6, &r->gain));
    return json_optional_number(rope, "original_max_position_embeddings", 1, 1e12, &r->original);
}

/* Phi keeps the original positions at the top, and says by them how far they are stretched. */
static status settle_long(json_value root, decoder_config *c) {
    rotary_angles_attributes *r = &c->rotary;
    TRY(json_optional_number(root, "original_max_position_embeddings", 1, 1e12, &r->original));
    if (!(r->original > 0)) r->original = (double)c->context;
    if (!(r->factor > 0)) r->factor = (double)c->context / r->original;
    if (!(r->gain > 0)) r->gain = r->factor > 1 ? sqrt(1 + log(r->factor) / log(r->original)) : 1;
    return STATUS_OK;
}

/* What Hunyuan calls dynamic is another theta, whatever the length: theta alpha^(D / (D - 2)). */
static status read_alpha(json_value rope, decoder_config *c) {
    double alpha = 1, size = (double)c->head_size;
    TRY(json_get_number(rope, "alpha", 1, 1e6, &alpha));
    if (size > 2) c->rotary.theta *= pow(alpha, size / (size - 2));
    c->rotary.factor = 0; /* it has none */
    return STATUS_OK;
}

static status read_stretch(json_value rope, decoder_config *c) {
    const char *kind = "default";
    rotary_angles_attributes *r = &c->rotary;
    TRY(json_optional_string(rope, "type", &kind));
    TRY(json_optional_string(rope, "rope_type", &kind));
    if (strcmp(kind, "default") == 0) return STATUS_OK;
    TRY(json_optional_number(rope, "factor", 1, 1e6, &r->factor));
    if (strcmp(kind, "linear") == 0) {
        r->stretch = ROTARY_LINEAR;
        return json_get_number(rope, "factor", 1, 1e6, &r->factor);
    }
    if (strcmp(kind, "yarn") == 0) return read_yarn(rope, c);
    if (strcmp(kind, "longrope") == 0 || strcmp(kind, "su") == 0) return read_long(rope, c);
    bool alpha = is(c, "hunyuan_v1_dense") && json_has(rope, "alpha");
    if (strcmp(kind, "dynamic") == 0 && alpha) return read_alpha(rope, c);
    if (strcmp(kind, "llama3") != 0) {
        c->untrained =
            "its rope_scaling is none of linear, llama3, yarn and longrope, which are what its builder knows";
        return STATUS_OK;
    }
    r->stretch = ROTARY_LLAMA3;
    TRY(json_get_number(rope, "factor", 1, 1e6, &r->factor));
    TRY(json_get_number(rope, "low_freq_factor", 1e-6, 1e6, &r->low));
    TRY(json_get_number(rope, "high_freq_factor", r->low * 1.000001, 1e7, &r->high));
    return json_get_number(rope, "original_max_position_embeddings", 1, 1e12, &r->original);
}

/* What a file that does not say it means, to others and here. */
static double usual_share(const decoder_config *c) { return c->kind->share > 0 ? c->kind->share : 1; }

/* One of the forms that a file may have: what belongs to rotary positions is in `rope`. */
static status read_rope(json_value rope, decoder_config *c, double *share) {
    TRY(json_as_object(rope));
    TRY(json_optional_number(rope, "rope_theta", 1, 1e12, &c->rotary.theta));
    TRY(json_optional_number(rope, "partial_rotary_factor", 0, 1, share));
    return read_stretch(rope, c);
}

/* Layers with a window may turn otherwise than those without. */
static status read_both_ropes(json_value ropes, decoder_config *c, double *share) {
    json_value full, sliding;
    const char *kind = "default";
    TRY(json_get(ropes, "full_attention", &full));
    TRY(read_rope(full, c, share));
    if (!json_find(ropes, "sliding_attention", &sliding)) return STATUS_OK;
    TRY(json_as_object(sliding));
    TRY(json_optional_string(sliding, "rope_type", &kind));
    if (strcmp(kind, "default") != 0)
        c->untrained = "positions in its layers with a window are stretched, which its builder does not know";
    return json_optional_number(sliding, "rope_theta", 1, 1e12, &c->near_theta);
}

static status read_rotary(json_value root, decoder_config *c) {
    double share = usual_share(c);
    json_value v;
    c->rotary = (rotary_angles_attributes){ .theta = c->kind->theta > 0 ? c->kind->theta : 1e4 };
    c->near_theta = c->kind->near_theta;
    TRY(json_optional_number(root, "rope_theta", 1, 1e12, &c->rotary.theta));
    TRY(json_optional_number(root, "rotary_emb_base", 1, 1e12, &c->rotary.theta)); /* GPT-NeoX's word */
    TRY(json_optional_number(root, "partial_rotary_factor", 0, 1, &share));
    TRY(json_optional_number(root, "rotary_pct", 0, 1, &share)); /* likewise */
    TRY(json_optional_number(root, "rope_local_base_freq", 1, 1e12, &c->near_theta));
    for (int newer = 0; newer < 2; newer++) {
        const char *key = newer ? "rope_parameters" : "rope_scaling";
        if (!json_find(root, key, &v)) continue;
        TRY(json_as_object(v));
        TRY(json_has(v, "full_attention") ? read_both_ropes(v, c, &share) : read_rope(v, c, &share));
    }
    if (c->rotary.stretch == ROTARY_LONG) TRY(settle_long(root, c));
    if (c->kind->near_plain && c->near_theta <= 0) c->near_theta = c->rotary.theta;
    double turned = floor(share * (double)c->head_size + 1e-9);
    c->rotary.turned = turned > ROTARY_MOST_TURNED ? ROTARY_MOST_TURNED + 2 : (int32_t)turned;
    return STATUS_OK;
}

/* Which layers turn nothing: those with a 0, of which every so many has one unless they are listed. */
static status read_still(json_value root, decoder_config *c) {
    json_value list;
    size_t count = 0;
    int64_t turns, every = c->kind->turns_every;
    if (!c->kind->turns_asked || c->layers > DECODER_MOST_LAYERS) return STATUS_OK;
    TRY(json_optional_integer(root, "no_rope_layer_interval", 1, INT32_MAX, &every));
    bool listed = json_find(root, "no_rope_layers", &list);
    if (listed) TRY(json_as_array(list, &count));
    if (listed && (int64_t)count < c->layers)
        return json_wrong(list, "has %zu items for %lld layers", count, (long long)c->layers);
    for (int64_t i = 0; i < c->layers; i++) {
        turns = (i + 1) % every != 0;
        if (listed) TRY(json_as_integer(json_item(list, (size_t)i), 0, 1, &turns));
        if (!turns) c->still[i / 64] |= UINT64_C(1) << (i % 64);
    }
    return STATUS_OK;
}

/* ---- windows ---- */

static void set_far(decoder_config *c, int64_t layer) { c->far[layer / 64] |= UINT64_C(1) << (layer % 64); }

static status read_layer_types(json_value root, decoder_config *c) {
    json_value types;
    size_t count;
    TRY(json_get(root, "layer_types", &types));
    TRY(json_as_array(types, &count));
    if ((int64_t)count != c->layers)
        return json_wrong(types, "has %zu items for %lld layers", count, (long long)c->layers);
    for (size_t i = 0; i < count && i < DECODER_MOST_LAYERS; i++) {
        const char *type;
        TRY(json_as_string(json_item(types, i), &type));
        if (strcmp(type, "full_attention") == 0)
            set_far(c, (int64_t)i);
        else if (strcmp(type, "sliding_attention") != 0)
            return json_wrong(json_item(types, i),
                              "is '%.40s'; it must be full_attention or sliding_attention", type);
    }
    return STATUS_OK;
}

/* EXAONE 4's form: "LLLG" repeats over the layers, L with a window, G without. The last layer has none,
 * whatever the pattern says. */
static status read_letters(json_value pattern, decoder_config *c) {
    const char *letters;
    TRY(json_as_string(pattern, &letters));
    size_t count = strlen(letters);
    if (!count || strspn(letters, "LG") != count)
        return json_wrong(pattern, "is '%.40s'; it must be a number, or letters L and G", letters);
    for (int64_t i = 0; i < c->layers; i++)
        if (letters[(size_t)i % count] == 'G' || i + 1 == c->layers) set_far(c, i);
    return STATUS_OK;
}

static status read_window(json_value root, decoder_config *c) {
    const decoder_kind *k = c->kind;
    bool used = k->windows == DECODER_WINDOWS, asked = k->windows == DECODER_WINDOWS_ASKED;
    int64_t from = k->near_from, every = k->far_every;
    json_value pattern;
    if (asked) TRY(json_optional_bool(root, "use_sliding_window", &used));
    if (!used) return STATUS_OK;
    c->window = json_says(root, "sliding_window") ? 0 : k->window; /* null says: none */
    TRY(json_optional_integer(root, "sliding_window", 1, INT32_MAX, &c->window));
    if (!c->window || c->layers > DECODER_MOST_LAYERS) return STATUS_OK;
    if (json_has(root, "layer_types")) return read_layer_types(root, c);
    if (asked) TRY(json_optional_integer(root, "max_window_layers", 0, INT32_MAX, &from));
    if (json_find(root, "sliding_window_pattern", &pattern) && json_is_string(pattern))
        return read_letters(pattern, c);
    TRY(json_optional_integer(root, "sliding_window_pattern", 1, INT32_MAX, &every));
    for (int64_t i = 0; i < c->layers; i++)
        if ((every && (i + 1) % every == 0) || i < from || (k->turns_asked && decoder_turns(c, i)))
            set_far(c, i);
    return STATUS_OK;
}

/* Of kinds whose layers without a window turn nothing. */
static void settle_still(decoder_config *c) {
    const decoder_kind *k = c->kind;
    if (!k->turns_near || (!c->window && k->turns_windowless)) return;
    for (int64_t i = 0; i < c->layers && i < DECODER_MOST_LAYERS; i++)
        if (decoder_sees_far(c, i)) c->still[i / 64] |= UINT64_C(1) << (i % 64);
}

/* ---- the rest ---- */

static status read_biases(json_value root, decoder_config *c) {
    const decoder_kind *k = c->kind;
    c->bias_qkv = k->bias_qkv, c->bias_o = k->bias_o, c->bias_feed = k->bias_feed,
    c->bias_head = k->bias_head;
    if (k->experts && k->bias_qkv) TRY(json_optional_bool(root, "qkv_bias", &c->bias_qkv));
    if (k->fixed_biases) return STATUS_OK;
    if (k->keys.biases) {
        TRY(json_optional_bool(root, k->keys.biases, &c->bias_qkv));
        TRY(json_optional_bool(root, k->keys.biases, &c->bias_o));
        return json_optional_bool(root, k->keys.biases, &c->bias_feed);
    }
    TRY(json_optional_bool(root, or_else(k->keys.bias_qkv, "attention_bias"), &c->bias_qkv));
    if (k->keys.bias_o) TRY(json_optional_bool(root, k->keys.bias_o, &c->bias_o));
    if (!k->bare_o) TRY(json_optional_bool(root, "attention_bias", &c->bias_o));
    return json_optional_bool(root, "mlp_bias", &c->bias_feed);
}

static const char *epsilon_key(const decoder_kind *k) {
    return or_else(k->keys.epsilon, k->layer_norm ? "layer_norm_eps" : "rms_norm_eps");
}

/* A kind either has norms on queries and keys, or has none, or qk_layernorm asks for them (norms_asked).
 * Where a configuration says anything else, its model is another one than the builder's. */
static status read_norms(json_value root, decoder_config *c) {
    static const char *const asking[] = { "qk_layernorm", "use_qk_norm" }; /* StableLM's word, and Cohere's */
    const decoder_kind *k = c->kind;
    c->epsilon = k->epsilon > 0 ? k->epsilon : 1e-6;
    TRY(json_optional_number(root, epsilon_key(k), 0, 1, &c->epsilon));
    for (int i = 0; i < 2; i++) {
        bool has = k->q_norm && !k->norms_asked, said = has;
        TRY(json_optional_bool(root, asking[i], &said));
        if (i == 0 && k->norms_asked)
            c->head_norms = said;
        else if (said && !has)
            c->untrained = "its builder has no norms on queries and keys", c->lacks_norms = true;
        else if (has && !said)
            c->untrained = "its builder always has norms on queries and keys";
    }
    return STATUS_OK;
}

static const char *residual_key(const decoder_config *c) {
    return or_else(c->kind->keys.dropout_residual, "resid_pdrop");
}

static const char *embedding_key(const decoder_config *c) {
    return or_else(c->kind->keys.dropout_embedding, "embd_pdrop");
}

static status read_dropouts(json_value root, decoder_config *c) {
    c->dropout_attention = c->dropout_residual = c->kind->dropout;
    TRY(model_config_dropout(root, "attention_dropout", &c->dropout_attention));
    TRY(model_config_dropout(root, residual_key(c), &c->dropout_residual));
    TRY(model_config_dropout(root, embedding_key(c), &c->dropout_embedding));
    if (!json_has(root, "hidden_dropout")) return STATUS_OK;
    TRY(model_config_dropout(root, "hidden_dropout", &c->dropout_residual));
    if (!c->kind->drops_feed) c->dropout_embedding = c->dropout_residual;
    return STATUS_OK;
}

/* null says: none. */
static status read_cap(json_value root, const char *key, double silent, double *cap) {
    *cap = json_says(root, key) || json_has(root, key) ? 0 : silent;
    return json_optional_number(root, key, 1e-3, 1e9, cap);
}

/* null says: none. */
static status read_bound(json_value root, decoder_config *c) {
    if (!json_has(root, "clip_qkv")) return STATUS_OK;
    if (!c->kind->bounds_qkv)
        c->untrained = "clip_qkv bounds queries, keys and values, which its builder does not know";
    return json_optional_number(root, "clip_qkv", 1e-6, 1e9, &c->bound_qkv);
}

/* Granite's, and Cohere's. What is 1 is left out, as no product is. */
static status read_factors_of(json_value root, decoder_config *c) {
    const char *logits = c->kind->keys.logits;
    c->logits_factor = c->kind->logits_factor;
    if (logits) TRY(json_optional_number(root, logits, 1e-6, 1e6, &c->logits_factor));
    double scaling = 1, *const factors[] = { &c->embedding_factor, &c->residual_factor };
    static const char *const keys[] = { "embedding_multiplier", "residual_multiplier" };
    if (!c->kind->multiplied) return STATUS_OK;
    for (int i = 0; i < 2; i++) {
        *factors[i] = 1;
        TRY(json_optional_number(root, keys[i], 1e-6, 1e6, factors[i]));
    }
    TRY(json_optional_number(root, "logits_scaling", 1e-6, 1e6, &scaling));
    c->logits_factor = 1 / scaling;
    c->attention_scale = 1;
    return json_optional_number(root, "attention_multiplier", 1e-6, 1e6, &c->attention_scale);
}

static status read_scores(json_value root, decoder_config *c) {
    double scalar = c->kind->query_scalar;
    if (!(scalar > 0)) return STATUS_OK;
    TRY(json_optional_number(root, "query_pre_attn_scalar", 1, 1e9, &scalar));
    c->attention_scale = 1 / sqrt(scalar);
    TRY(read_cap(root, "attn_logit_softcapping", c->kind->cap_scores, &c->cap_scores));
    return read_cap(root, "final_logit_softcapping", c->kind->cap_logits, &c->cap_logits);
}

/* ---- Falcon, whose config.json chooses among three kinds ---- */

static status settle_falcon(json_value root, decoder_config *c) {
    bool newer = false, shared = true, parallel = true, alibi = false;
    int64_t norms = 0;
    json_value v;
    TRY(json_optional_bool(root, "new_decoder_architecture", &newer));
    TRY(json_optional_bool(root, "multi_query", &shared));
    TRY(json_optional_bool(root, "parallel_attn", &parallel));
    TRY(json_optional_bool(root, "alibi", &alibi));
    TRY(json_optional_integer(root, "num_ln_in_parallel_attn", 1, 2, &norms));
    if (alibi) TRY(json_get(root, "alibi", &v));
    if (alibi)
        return json_wrong(v, "is true; biases by distance in place of rotary positions have no builder here");
    if (!parallel) TRY(json_get(root, "parallel_attn", &v));
    if (!parallel) return json_wrong(v, "is false; only halves side by side have a builder here");
    bool both = newer && norms != 1;
    c->kind = decoder_kind_of("falcon", newer || !shared ? DECODER_BY_HEAD : DECODER_PACKED,
                              both ? DECODER_PARALLEL_TWO_NORMS : DECODER_PARALLEL);
    return STATUS_OK;
}

/* Without new_decoder_architecture num_kv_heads is not read. transformers drops nothing of attention, and of
 * both halves together what hidden_dropout says. */
static status finish_falcon(json_value root, decoder_config *c) {
    bool newer = false;
    TRY(json_optional_bool(root, "new_decoder_architecture", &newer));
    if (!newer) c->kv_heads = c->kind->kv_heads ? c->kind->kv_heads : c->heads;
    c->dropout_attention = c->dropout_embedding = 0;
    if (c->dropout_residual > 0)
        c->untrained = "its hidden_dropout is of both halves together, which its builder has of each";
    return STATUS_OK;
}

static void put_falcon(json_writer *w, const decoder_config *c) {
    bool newer = c->kind->packing == DECODER_BY_HEAD && c->kv_heads < c->heads;
    newer |= c->kind->order == DECODER_PARALLEL_TWO_NORMS;
    json_put_bool(w, "new_decoder_architecture", newer);
    json_put_bool(w, "multi_query", c->kind->packing == DECODER_PACKED);
    json_put_bool(w, "parallel_attn", true);
    json_put_bool(w, "alibi", false);
    if (newer)
        json_put_integer(w, "num_ln_in_parallel_attn", c->kind->order == DECODER_PARALLEL_TWO_NORMS ? 2 : 1);
}

static status read_order(json_value root, decoder_config *c) {
    const decoder_kind *k = c->kind;
    bool usual = k->order != DECODER_SERIAL, parallel = usual;
    if (!k->order_asked) return STATUS_OK;
    TRY(json_optional_bool(root, "use_parallel_residual", &parallel));
    if (parallel != usual) c->order = k->other_order;
    return STATUS_OK;
}

status config_decoder_read(json_value root, decoder_config *c) {
    bool falcon = is(c, "falcon");
    if (falcon) TRY(settle_falcon(root, c));
    c->order = c->kind->order;
    c->tied = c->kind->tied;
    c->deviation = 0.02;
    TRY(read_sizes(root, c));
    TRY(config_experts_read(root, c));
    TRY(read_activation(root, c));
    TRY(read_rotary(root, c));
    TRY(read_still(root, c));
    TRY(read_window(root, c));
    settle_still(c);
    TRY(read_biases(root, c));
    TRY(read_norms(root, c));
    TRY(read_dropouts(root, c));
    TRY(read_scores(root, c));
    TRY(read_factors_of(root, c));
    TRY(read_bound(root, c));
    if (falcon) TRY(finish_falcon(root, c));
    TRY(read_order(root, c));
    TRY(json_optional_number(root, "initializer_range", 0, 10, &c->deviation));
    return json_optional_bool(root, "tie_word_embeddings", &c->tied);
}

static const char *const keys[] = { "num_hidden_layers",
                                    "num_attention_heads",
                                    "num_key_value_heads",
                                    "head_dim",
                                    "hidden_size",
                                    "intermediate_size",
                                    "max_position_embeddings",
                                    "vocab_size",
                                    "hidden_act",
                                    "hidden_activation",
                                    "rope_theta",
                                    "rope_scaling",
                                    "rope_parameters",
                                    "rotary_emb_base",
                                    "rotary_pct",
                                    "partial_rotary_factor",
                                    "rope_local_base_freq",
                                    "layer_types",
                                    "sliding_window",
                                    "sliding_window_pattern",
                                    "max_window_layers",
                                    "use_sliding_window",
                                    "attention_bias",
                                    "mlp_bias",
                                    "layer_norm_eps",
                                    "rms_norm_eps",
                                    "qk_layernorm",
                                    "attention_dropout",
                                    "resid_pdrop",
                                    "embd_pdrop",
                                    "hidden_dropout",
                                    "qkv_bias",
                                    "clip_qkv",
                                    "query_pre_attn_scalar",
                                    "final_logit_softcapping",
                                    "attn_logit_softcapping",
                                    "use_parallel_residual",
                                    "initializer_range",
                                    "original_max_position_embeddings",
                                    "classifier_dropout",
                                    "embedding_multiplier",
                                    "residual_multiplier",
                                    "attention_multiplier",
                                    "logits_scaling",
                                    "no_rope_layers",
                                    "no_rope_layer_interval",
                                    "use_bias",
                                    "norm_epsilon",
                                    "residual_dropout",
                                    "embedding_dropout",
                                    "num_kv_heads",
                                    "ffn_hidden_size",
                                    "activation",
                                    "bias",
                                    "layer_norm_epsilon",
                                    "multi_query",
                                    "new_decoder_architecture",
                                    "parallel_attn",
                                    "alibi",
                                    "num_ln_in_parallel_attn",
                                    "attention_out_bias",
                                    "logit_scale",
                                    "use_qk_norm",
                                    "use_qkv_bias" };

bool config_decoder_knows(const char *key) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return config_experts_knows(key);
}

/* ---- writing ---- */

static const char *activation_name(const decoder_config *c) {
    static const char *const names[] = { "silu", "gelu", "gelu_new", "relu2" };
    return c->gelu_whole && c->activation == DECODER_GELU_TANH ? "gelu_pytorch_tanh" : names[c->activation];
}

static void put_cap(json_writer *w, const char *key, double silent, double cap) {
    if (cap > 0)
        json_put_real(w, key, cap);
    else if (silent > 0)
        json_put_null(w, key);
}

static void put_factors(json_writer *w, const decoder_config *c) {
    const rotary_angles_attributes *r = &c->rotary;
    for (int far = 0; far < 2; far++) {
        json_begin_array(w, far ? "long_factor" : "short_factor");
        for (int32_t i = 0; i < r->turned / 2; i++)
            json_put_number(w, NULL, (double)(far ? r->far[i] : r->near[i]));
        json_end_array(w);
    }
}

static void put_rope(json_writer *w, const char *key, const decoder_config *c, double theta, bool stretched) {
    static const char *const kinds[] = { "default", "linear", "llama3", "yarn", "longrope" };
    const rotary_angles_attributes *r = &c->rotary;
    json_begin_object(w, key);
    json_put_string(w, "rope_type", kinds[stretched ? r->stretch : ROTARY_PLAIN]);
    json_put_number(w, "rope_theta", theta);
    double share = (double)r->turned / (double)c->head_size;
    if (share < 1 || usual_share(c) < 1) json_put_number(w, "partial_rotary_factor", share);
    if (stretched && r->stretch) json_put_number(w, "factor", r->factor);
    if (stretched && r->stretch == ROTARY_LLAMA3) {
        json_put_number(w, "low_freq_factor", r->low);
        json_put_number(w, "high_freq_factor", r->high);
        json_put_integer(w, "original_max_position_embeddings", (int64_t)r->original);
    }
    if (stretched && r->stretch == ROTARY_YARN) {
        json_put_number(w, "beta_slow", r->low);
        json_put_number(w, "beta_fast", r->high);
        json_put_number(w, "attention_factor", r->gain);
        json_put_bool(w, "truncate", !r->unrounded);
        json_put_integer(w, "original_max_position_embeddings", (int64_t)r->original);
    }
    if (stretched && r->stretch == ROTARY_LONG) {
        put_factors(w, c);
        json_put_number(w, "attention_factor", r->gain);
        json_put_integer(w, "original_max_position_embeddings", (int64_t)r->original);
    }
    json_end_object(w);
}

/* Phi's configuration of then wants these three and no others. */
static void put_older_long(json_writer *w, const decoder_config *c) {
    json_put_integer(w, "original_max_position_embeddings", (int64_t)c->rotary.original);
    json_begin_object(w, "rope_scaling");
    json_put_string(w, "type", "longrope");
    put_factors(w, c);
    json_end_object(w);
}

/* As transformers before 5 reads it. */
static void put_older_rope(json_writer *w, const decoder_config *c) {
    const rotary_angles_attributes *r = &c->rotary;
    bool neox = is(c, "gpt_neox");
    double share = (double)r->turned / (double)c->head_size;
    json_put_number(w, neox ? "rotary_emb_base" : "rope_theta", r->theta);
    if (share < 1 || usual_share(c) < 1)
        json_put_number(w, neox ? "rotary_pct" : "partial_rotary_factor", share);
    if (c->near_theta > 0) json_put_number(w, "rope_local_base_freq", c->near_theta);
    if (r->stretch == ROTARY_LONG)
        put_older_long(w, c);
    else if (r->stretch)
        put_rope(w, "rope_scaling", c, r->theta, true);
}

static void put_rotary(json_writer *w, const decoder_config *c) {
    put_older_rope(w, c);
    if (c->near_theta <= 0) {
        put_rope(w, "rope_parameters", c, c->rotary.theta, true);
        return;
    }
    json_begin_object(w, "rope_parameters");
    put_rope(w, "full_attention", c, c->rotary.theta, true);
    put_rope(w, "sliding_attention", c, c->near_theta, false);
    json_end_object(w);
}

static void put_still(json_writer *w, const decoder_config *c) {
    if (!c->kind->turns_asked) return;
    json_begin_array(w, "no_rope_layers");
    for (int64_t i = 0; i < c->layers; i++) json_put_integer(w, NULL, decoder_turns(c, i));
    json_end_array(w);
}

static void put_factors_of(json_writer *w, const decoder_config *c) {
    if (c->kind->keys.logits) json_put_number(w, c->kind->keys.logits, c->logits_factor);
    if (!c->kind->multiplied) return;
    json_put_number(w, "embedding_multiplier", c->embedding_factor);
    json_put_number(w, "residual_multiplier", c->residual_factor);
    json_put_number(w, "attention_multiplier", c->attention_scale);
    json_put_number(w, "logits_scaling", 1 / c->logits_factor);
}

static void put_biases(json_writer *w, const decoder_config *c) {
    if (c->kind->fixed_biases) return;
    if (c->kind->keys.biases) {
        json_put_bool(w, c->kind->keys.biases, c->bias_qkv);
        return;
    }
    json_put_bool(w, or_else(c->kind->keys.bias_qkv, "attention_bias"), c->bias_qkv);
    if (c->kind->keys.bias_o) json_put_bool(w, c->kind->keys.bias_o, c->bias_o);
    json_put_bool(w, "mlp_bias", c->bias_feed);
}

static void put_window(json_writer *w, const decoder_config *c) {
    if (!c->window) {
        json_put_null(w, "sliding_window");
        return;
    }
    json_put_integer(w, "sliding_window", c->window);
    json_put_bool(w, "use_sliding_window", true);
    json_begin_array(w, "layer_types");
    for (int64_t i = 0; i < c->layers; i++)
        json_put_string(w, NULL, decoder_sees_far(c, i) ? "full_attention" : "sliding_attention");
    json_end_array(w);
}

void config_decoder_put(json_writer *w, const decoder_config *c) {
    const decoder_kind *k = c->kind;
    json_put_string(w, "model_type", c->kind->type);
    json_put_integer(w, "num_hidden_layers", c->layers);
    json_put_integer(w, "num_attention_heads", c->heads);
    json_put_integer(w, or_else(k->keys.kv_heads, "num_key_value_heads"), c->kv_heads);
    json_put_integer(w, "head_dim", c->head_size);
    json_put_integer(w, "hidden_size", c->channels);
    json_put_integer(w, or_else(k->keys.inner, "intermediate_size"), c->inner);
    json_put_integer(w, "max_position_embeddings", c->context);
    json_put_integer(w, "vocab_size", c->vocabulary);
    config_experts_put(w, c);
    json_put_string(w, or_else(k->keys.activation, "hidden_act"), activation_name(c));
    if (c->kind->around_one) json_put_string(w, "hidden_activation", activation_name(c));
    put_rotary(w, c);
    put_still(w, c);
    put_window(w, c);
    put_biases(w, c);
    put_factors_of(w, c);
    if (is(c, "falcon")) put_falcon(w, c);
    json_put_real(w, epsilon_key(k), c->epsilon);
    json_put_real(w, "attention_dropout", c->dropout_attention);
    if (k->order_asked) json_put_bool(w, "use_parallel_residual", c->order != DECODER_SERIAL);
    if (is(c, "gpt_neox")) {
        json_put_real(w, "hidden_dropout", c->dropout_residual);
    } else {
        json_put_real(w, residual_key(c), c->dropout_residual);
        json_put_real(w, embedding_key(c), c->dropout_embedding);
    }
    if (c->experts.count && c->kind->bias_qkv) json_put_bool(w, "qkv_bias", c->bias_qkv);
    if (c->kind->norms_asked) json_put_bool(w, "qk_layernorm", c->head_norms);
    if (c->bound_qkv > 0) json_put_real(w, "clip_qkv", c->bound_qkv);
    put_cap(w, "attn_logit_softcapping", c->kind->cap_scores, c->cap_scores);
    put_cap(w, "final_logit_softcapping", c->kind->cap_logits, c->cap_logits);
    if (c->attention_scale > 0 && k->query_scalar > 0)
        json_put_number(w, "query_pre_attn_scalar", 1 / (c->attention_scale * c->attention_scale));
    json_put_real(w, "initializer_range", c->deviation);
    json_put_bool(w, "tie_word_embeddings", c->tied);
}
