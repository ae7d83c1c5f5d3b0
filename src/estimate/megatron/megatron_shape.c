#include "estimate/megatron/megatron_shape.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/json.h"

/* ---- of what snug builds ---- */

static status refuse(const char *name, const char *what) {
    return status_set(STATUS_INVALID, "%s has %s, which the rules of Megatron-Core don't know", name, what);
}

static status of_decoder(const decoder_config *d, const char *name, megatron_shape *m) {
    const decoder_kind *k = d->kind;
    if (d->order != DECODER_SERIAL) return refuse(name, "halves side by side");
    if (k->after_attention || k->after_feed) return refuse(name, "norms behind its halves");
    if (d->cap_scores > 0) return refuse(name, "caps on scores");
    *m = (megatron_shape){ .layers = d->layers,
                           .channels = d->channels,
                           .vocabulary = d->vocabulary,
                           .context = d->context,
                           .heads = d->heads,
                           .kv_heads = d->kv_heads,
                           .head_size = d->head_size,
                           .inner = d->inner,
                           .experts = d->experts.count,
                           .chosen = d->experts.chosen,
                           .expert_inner = d->experts.inner,
                           .shared = d->experts.shared,
                           .gated = k->gate || k->gate_up_packed,
                           .layer_norm = k->layer_norm,
                           .bias_qkv = d->bias_qkv,
                           .bias_o = d->bias_o,
                           .bias_feed = d->bias_feed,
                           .tied = d->tied,
                           .head_norms = k->q_norm && (!k->norms_asked || d->head_norms),
                           .drops = d->dropout_residual > 0 };
    memcpy(m->dense, d->experts.dense, sizeof m->dense);
    for (int64_t i = 0; i < d->layers; i++)
        if (!megatron_has_experts(m, i)) m->patterned = d->layers;
    return STATUS_OK;
}

static void of_gpt2(const gpt2_config *g, megatron_shape *m) {
    *m = (megatron_shape){ .layers = g->layers,
                           .channels = g->channels,
                           .vocabulary = g->vocabulary,
                           .context = g->context,
                           .heads = g->heads,
                           .kv_heads = g->heads,
                           .head_size = g->channels / g->heads,
                           .inner = g->inner,
                           .layer_norm = true,
                           .bias_qkv = true,
                           .bias_o = true,
                           .bias_feed = true,
                           .tied = g->tied,
                           .learns_positions = true,
                           .drops = g->dropout_residual > 0 };
}

status megatron_shape_of(const model_config *c, const char *name, megatron_shape *m) {
    if (c->family == FAMILY_DECODER) return of_decoder(&c->decoder, name, m);
    if (c->family != FAMILY_GPT2)
        return status_set(STATUS_INVALID, "%s is no decoder, and the rules of Megatron-Core are of decoders",
                          name);
    of_gpt2(&c->gpt2, m);
    return STATUS_OK;
}

/* ---- DeepSeek's ---- */

enum { MOST = 1 << 24 };

typedef struct {
    const char *key;
    int64_t *to;
    int64_t low;
} member;

/* Experts stand in every `every`-th layer from the `first`-th on. */
static status read_experts(json_value root, megatron_shape *m) {
    int64_t first = 0, every = 1, shared = 0;
    TRY(json_optional_integer(root, "n_routed_experts", 0, MOST, &m->experts));
    if (!m->experts) return STATUS_OK;
    const member members[] = { { "num_experts_per_tok", &m->chosen, 1 },
                               { "moe_intermediate_size", &m->expert_inner, 1 } };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        TRY(json_get_integer(root, members[i].key, members[i].low, MOST, members[i].to));
    TRY(json_optional_integer(root, "n_shared_experts", 0, MOST, &shared));
    TRY(json_optional_integer(root, "first_k_dense_replace", 0, m->layers, &first));
    TRY(json_optional_integer(root, "moe_layer_freq", 1, MOST, &every));
    if (m->chosen > m->experts)
        return status_set(STATUS_INVALID, "num_experts_per_tok is %lld, and there are %lld experts",
                          (long long)m->chosen, (long long)m->experts);
    m->shared = shared * m->expert_inner;
    for (int64_t i = 0; i < DECODER_MOST_LAYERS; i++)
        if (i < first || i % every) m->dense[i / 64] |= UINT64_C(1) << (i % 64);
    return STATUS_OK;
}

static status read_members(json_value root, megatron_shape *m) {
    const member members[] = {
        { "num_hidden_layers", &m->layers, 1 },   { "hidden_size", &m->channels, 1 },
        { "vocab_size", &m->vocabulary, 1 },      { "num_attention_heads", &m->heads, 1 },
        { "intermediate_size", &m->inner, 1 },    { "kv_lora_rank", &m->kv_rank, 1 },
        { "qk_nope_head_dim", &m->head_size, 1 }, { "qk_rope_head_dim", &m->turned, 1 },
        { "v_head_dim", &m->value_size, 1 }
    };
    json_value rank;
    *m = (megatron_shape){ .gated = true, .context = 4096 };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        TRY(json_get_integer(root, members[i].key, members[i].low, MOST, members[i].to));
    m->kv_heads = m->heads;
    if (m->layers > DECODER_MOST_LAYERS)
        return status_set(STATUS_INVALID, "num_hidden_layers is %lld, more than %d", (long long)m->layers,
                          DECODER_MOST_LAYERS);
    if (json_find(root, "q_lora_rank", &rank)) TRY(json_as_integer(rank, 1, MOST, &m->q_rank));
    TRY(json_optional_integer(root, "max_position_embeddings", 1, 1 << 30, &m->context));
    TRY(json_optional_bool(root, "tie_word_embeddings", &m->tied));
    TRY(json_optional_integer(root, "num_nextn_predict_layers", 0, MOST, &m->predicted));
    return read_experts(root, m);
}

status megatron_shape_read(const char *path, megatron_shape *m, bool *read) {
    static const char *const types[] = { "deepseek_v2", "deepseek_v3", "kimi_k2" };
    char inside[4096];
    struct stat about;
    json_document d;
    const char *type = NULL;
    *read = false;
    if (stat(path, &about)) return STATUS_OK;
    if (S_ISDIR(about.st_mode)) {
        int n = snprintf(inside, sizeof inside, "%s/config.json", path);
        if (n >= (int)sizeof inside || stat(inside, &about)) return STATUS_OK;
        path = inside;
    }
    TRY(json_open(path, &d));
    status result = json_optional_string(d.root, "model_type", &type);
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++) *read |= strcmp(type, types[i]) == 0;
    if (result == STATUS_OK && *read) result = read_members(d.root, m);
    json_close(&d);
    return result;
}
