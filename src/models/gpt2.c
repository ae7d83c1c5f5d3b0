#include "models/gpt2.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/add/add.h"
#include "ops/add_positions/add_positions.h"
#include "ops/attention/attention.h"
#include "ops/cache_append/cache_append.h"
#include "ops/concat/concat.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"

/* ---- configuration ---- */

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

static bool probability(double p) { return p >= 0 && p < 1; }

status gpt2_check(const gpt2_config *c) {
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = { { "n_layer", c->layers, 1024 },           { "n_head", c->heads, 1024 },
                  { "n_embd", c->channels, 1 << 20 },       { "n_positions", c->context, 1 << 24 },
                  { "vocab_size", c->vocabulary, 1 << 26 }, { "n_inner", c->inner, 1 << 22 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
            return status_set(STATUS_INVALID, "%s is %lld; it must be from 1 to %lld", sizes[i].name,
                              (long long)sizes[i].value, (long long)sizes[i].most);
    if (c->channels % c->heads)
        return status_set(STATUS_INVALID,
                          "n_embd %lld cannot be divided among n_head %lld heads; it must be a multiple",
                          (long long)c->channels, (long long)c->heads);
    if (!probability(c->dropout_embedding) || !probability(c->dropout_attention) ||
        !probability(c->dropout_residual))
        return status_set(STATUS_INVALID, "a dropout probability is not in [0, 1)");
    if (!(c->epsilon > 0 && c->epsilon < 1))
        return status_set(STATUS_INVALID,
                          "layer_norm_epsilon is %g; it must lie between 0 and 1, as 1e-5 does", c->epsilon);
    if (!(c->deviation > 0 && c->deviation < 10))
        return status_set(STATUS_INVALID,
                          "initializer_range is %g; it must lie between 0 and 10, as 0.02 does",
                          c->deviation);
    return STATUS_OK;
}

/* ---- the graph ---- */

typedef struct {
    const gpt2_config *c;
    graph *g;
    model_mode mode;
    tensor_id key, position; /* 0: not needed */
    int32_t stream;          /* of the next random node */
} builder;

static tensor_id parameter(builder *b, int64_t layer, const char *suffix, shape s) {
    char name[96];
    if (layer >= 0)
        snprintf(name, sizeof name, "transformer.h.%lld.%s", (long long)layer, suffix);
    else
        snprintf(name, sizeof name, "%s", suffix);
    return model_parameter(b->g, name, s, s.rank > 1 ? TENSOR_DECAY : 0);
}

static tensor_id drop(builder *b, tensor_id x, double p) {
    int32_t stream = b->stream++;
    return p > 0 && b->mode == MODEL_TRAIN ? dropout_apply(b->g, x, b->key, (float)p, stream) : x;
}

/* x W + b with parameters h.<layer>.<name>.{weight,bias} */
static tensor_id linear(builder *b, int64_t layer, const char *name, tensor_id x, int64_t out) {
    char weight[48], bias[48];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    int64_t in = shape_last(graph_shape(b->g, x));
    return matmul_apply(b->g, &(matmul_inputs){ .a = x,
                                                .b = parameter(b, layer, weight, SHAPE(in, out)),
                                                .bias = parameter(b, layer, bias, SHAPE(out)) });
}

static tensor_id norm(builder *b, int64_t layer, const char *name, tensor_id x) {
    char weight[48], bias[48];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    tensor_id gamma = parameter(b, layer, weight, SHAPE(b->c->channels));
    tensor_id beta = parameter(b, layer, bias, SHAPE(b->c->channels));
    return layernorm_apply(b->g, x, gamma, beta, (float)b->c->epsilon);
}

/* Keys or values of earlier tokens, with those of x's columns [column, column + C) appended. */
static tensor_id cached(builder *b, int64_t layer, const char *name, tensor_id x, int32_t column) {
    char full[64];
    snprintf(full, sizeof full, "cache.%lld.%s", (long long)layer, name);
    int64_t batch = graph_shape(b->g, x)->dim[0], channels = b->c->channels;
    tensor_id cache = graph_add_source(b->g, &(graph_source){ .name = full,
                                                              .shape = SHAPE(batch, b->c->context, channels),
                                                              .dtype = DTYPE_F32,
                                                              .role = ROLE_STATE });
    return cache_append_apply(b->g, cache, x, b->position,
                              &(cache_append_attributes){ column, (int32_t)channels });
}

/* The queries of sample i's packed q|k|v of one token: a view of its first C columns. */
static tensor_id queries_of(builder *b, tensor_id qkv, int64_t i) {
    int64_t rows = shape_rows(graph_shape(b->g, qkv)), channels = b->c->channels;
    tensor_id thirds = reshape_apply(b->g, qkv, SHAPE(3 * rows, channels));
    return reshape_apply(b->g, slice_apply(b->g, thirds, 3 * i, 1), SHAPE(1, 1, channels));
}

/* Attention of one new token of each sample to its cache, sample by sample: the same calls, and the same
 * bits, whatever else is in the batch. */
static tensor_id attend_cached(builder *b, int64_t layer, tensor_id qkv, const attention_attributes *a) {
    const shape *s = graph_shape(b->g, qkv);
    int64_t batch = s->dim[0], channels = b->c->channels;
    tensor_id parts[MODEL_MOST_DECODED];
    if (batch > MODEL_MOST_DECODED || s->dim[1] != 1)
        return graph_fail(b->g, "gpt2 decodes one token each of at most %d samples, not %lld of %lld",
                          MODEL_MOST_DECODED, (long long)s->dim[1], (long long)batch);
    tensor_id k = cached(b, layer, "k", qkv, (int32_t)channels);
    tensor_id v = cached(b, layer, "v", qkv, (int32_t)(2 * channels));
    for (int64_t i = 0; i < batch; i++)
        parts[i] = attention_apply(b->g,
                                   &(attention_inputs){ .q = queries_of(b, qkv, i),
                                                        .k = slice_apply(b->g, k, i, 1),
                                                        .v = slice_apply(b->g, v, i, 1),
                                                        .offset = b->position },
                                   a);
    return batch == 1 ? parts[0] : concat_apply(b->g, parts, (uint32_t)batch);
}

static tensor_id attend(builder *b, int64_t layer, tensor_id x) {
    const gpt2_config *c = b->c;
    bool random = b->mode == MODEL_TRAIN && c->dropout_attention > 0;
    attention_attributes a = { .heads = (int32_t)c->heads,
                               .kv_heads = (int32_t)c->heads,
                               .causal = 1,
                               .dropout = random ? (float)c->dropout_attention : 0,
                               .stream = b->stream++ };
    tensor_id qkv = linear(b, layer, "attn.c_attn", x, 3 * c->channels);
    attention_inputs in = { .q = qkv, .key = random ? b->key : 0 };
    tensor_id attended =
        b->mode == MODEL_DECODE ? attend_cached(b, layer, qkv, &a) : attention_apply(b->g, &in, &a);
    return linear(b, layer, "attn.c_proj", attended, c->channels);
}

static tensor_id feed_forward(builder *b, int64_t layer, tensor_id x) {
    tensor_id wide = linear(b, layer, "mlp.c_fc", x, b->c->inner);
    return linear(b, layer, "mlp.c_proj", gelu_apply(b->g, wide, b->c->tanh), b->c->channels);
}

static tensor_id block(builder *b, int64_t layer, tensor_id x) {
    double p = b->c->dropout_residual;
    b->g->site = (int32_t)layer;
    tensor_id attended = attend(b, layer, norm(b, layer, "ln_1", x));
    x = add_apply(b->g, x, drop(b, attended, p));
    tensor_id fed = feed_forward(b, layer, norm(b, layer, "ln_2", x));
    return add_apply(b->g, x, drop(b, fed, p));
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const gpt2_config *c = m->config;
    builder b = { .c = c, .g = g, .mode = run->mode };
    bool random = run->mode == MODEL_TRAIN &&
                  (c->dropout_embedding > 0 || c->dropout_attention > 0 || c->dropout_residual > 0);
    tensor_id tokens = model_input(g, "tokens", SHAPE(run->batch, run->context), DTYPE_I32);
    if (random) b.key = model_input(g, "key", SHAPE(4), DTYPE_I32);
    if (run->mode == MODEL_DECODE) b.position = model_input(g, "position", SHAPE(1), DTYPE_I32);
    tensor_id wte = parameter(&b, -1, "transformer.wte.weight", SHAPE(c->vocabulary, c->channels));
    tensor_id wpe = parameter(&b, -1, "transformer.wpe.weight", SHAPE(c->context, c->channels));

    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    tensor_id x = add_positions_apply(g, embedding_apply(g, tokens, wte), wpe, b.position);
    x = drop(&b, x, c->dropout_embedding);
    for (int64_t layer = 0; layer < c->layers; layer++) x = block(&b, layer, x);
    g->site = SITE_NONE;
    x = norm(&b, -1, "transformer.ln_f", x);
    tensor_id head = c->tied ? wte : parameter(&b, -1, "lm_head.weight", SHAPE(c->vocabulary, c->channels));
    tensor_id logits = matmul_apply(g, &(matmul_inputs){ .a = x, .b = head, .tb = true });
    *ports = (model_ports){ .logits = logits };
    if (run->mode == MODEL_DECODE) return;
    tensor_id labels = model_input(g, "labels", SHAPE(run->batch, run->context), DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32);
    ports->loss = cross_entropy_apply(g, logits, labels, scale, model_result(g, "loss"));
}

/* ---- beginnings ---- */

/* Normal weights; the two products that end in the residual stream are scaled by 1/sqrt(2 layers). */
static void initial(const model *m, const char *parameter_name, const shape *s, model_initial *out) {
    const gpt2_config *c = m->config;
    *out = (model_initial){ .stream = model_stream(parameter_name) };
    size_t length = strlen(parameter_name);
    bool residual = length > 13 && strcmp(parameter_name + length - 13, "c_proj.weight") == 0;
    if (s->rank > 1)
        out->deviation = (float)(residual ? c->deviation / sqrt(2.0 * (double)c->layers) : c->deviation);
    else if (strstr(parameter_name, "ln_") && strcmp(parameter_name + length - 6, "weight") == 0)
        out->mean = 1;
}

void gpt2_model(const gpt2_config *c, const char *name, model *m) {
    *m = (model){ .family = "gpt2",
                  .config = c,
                  .context = c->context,
                  .vocabulary = c->vocabulary,
                  .layers = c->layers,
                  .build = build,
                  .initial = initial,
                  .fields = model_token_fields };
    snprintf(m->name, sizeof m->name, "%s", name);
}
