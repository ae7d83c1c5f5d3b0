#include "models/gpt2.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "models/head.h"
#include "models/paged.h"
#include "ops/add/add.h"
#include "ops/add_positions/add_positions.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"

typedef struct {
    const gpt2_config *c;
    graph *g;
    model_mode mode;
    tensor_id key, segments;  /* 0: not needed */
    paged_inputs rows;        /* of MODEL_ROWS, */
    const paged_sizes *paged; /* and its caches */
    int32_t stream;           /* of the next random node */
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

/* x W + b with parameters transformer.h.<layer>.<name>.{weight,bias} */
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

static tensor_id attend_cached(builder *b, int64_t layer, tensor_id qkv, const attention_attributes *a) {
    int64_t channels = b->c->channels;
    paged_layer in = { .q = { qkv, 0, channels },
                       .k = { qkv, channels, channels },
                       .v = { qkv, 2 * channels, channels },
                       .layer = layer };
    return paged_attend(b->g, &b->rows, b->paged, &in, a);
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
    tensor_id attended =
        model_mode_continues(b->mode)
            ? attend_cached(b, layer, qkv, &a)
            : attention_apply(
                  b->g, &(attention_inputs){ .q = qkv, .segments = b->segments, .key = random ? b->key : 0 },
                  &a);
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

/* Positions go from 0 to the end of the sample, but where each document of it has its own. */
static tensor_id embed(builder *b, tensor_id x, tensor_id wpe, tensor_id positions) {
    if (!positions) return add_positions_apply(b->g, x, wpe, 0);
    return add_apply(b->g, x, embedding_apply(b->g, positions, wpe));
}

/* GPT2ForSequenceClassification. */
static void judge(const model *m, builder *b, tensor_id x, const model_run *run, model_ports *ports) {
    tensor_id w = parameter(b, -1, "score.weight", SHAPE(m->head.outputs, b->c->channels));
    x = head_last_token(b->g, x, run);
    head_finish(m, b->g, matmul_apply(b->g, &(matmul_inputs){ .a = x, .b = w, .tb = true }), run, ports);
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const gpt2_config *c = m->config;
    if (!model_may_build(m, g, run)) return;
    builder b = { .c = c, .g = g, .mode = run->mode, .paged = run->paged };
    bool random = run->mode == MODEL_TRAIN &&
                  (c->dropout_embedding > 0 || c->dropout_attention > 0 || c->dropout_residual > 0);
    tensor_id tokens = model_input(g, "tokens", SHAPE(run->batch, run->context), DTYPE_I32);
    if (random) b.key = model_input(g, "key", SHAPE(4), DTYPE_I32);
    b.segments = model_segments(m, g, run);
    b.rows = paged_open(g, run);
    tensor_id positions = run->mode == MODEL_ROWS ? paged_positions(g, &b.rows) : model_positions(m, g, run);
    tensor_id wte = parameter(&b, -1, "transformer.wte.weight", SHAPE(c->vocabulary, c->channels));
    tensor_id wpe = parameter(&b, -1, "transformer.wpe.weight", SHAPE(c->context, c->channels));

    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    tensor_id x = embed(&b, embedding_apply(g, tokens, wte), wpe, positions);
    x = drop(&b, x, c->dropout_embedding);
    const int64_t layers = model_layers(run, c->layers);
    for (int64_t layer = 0; layer < layers; layer++) x = block(&b, layer, x);
    g->site = SITE_NONE;
    bool rows = run->mode == MODEL_ROWS, tells = rows && run->paged->hidden;
    if (rows && !tells) x = paged_wanted(g, &b.rows, x);
    x = norm(&b, -1, "transformer.ln_f", x);
    tensor_id hidden = tells ? model_shown(g, x) : 0;
    if (tells) x = paged_wanted(g, &b.rows, x);
    if (m->head.kind != HEAD_LANGUAGE) {
        judge(m, &b, x, run, ports);
        return;
    }
    tensor_id head = c->tied ? wte : parameter(&b, -1, "lm_head.weight", SHAPE(c->vocabulary, c->channels));
    tensor_id logits = matmul_apply(g, &(matmul_inputs){ .a = x, .b = head, .tb = true });
    *ports = (model_ports){ .logits = logits, .hidden = hidden };
    if (model_mode_continues(run->mode)) return;
    tensor_id labels = model_input(g, "labels", SHAPE(run->batch, run->context), DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32);
    ports->loss = cross_entropy_apply(g, logits, labels, scale, model_result(g, "loss"));
}

/* ---- beginnings ---- */

/* Normal weights; the two products that end in the residual stream are scaled by 1/sqrt(2 layers). */
static void initial(const model *m, const char *parameter_name, const shape *s, model_initial *out) {
    const gpt2_config *c = m->config;
    *out = (model_initial){ .stream = model_stream(parameter_name) };
    bool residual = text_ends_with(parameter_name, "c_proj.weight");
    if (s->rank > 1)
        out->deviation = (float)(residual ? c->deviation / sqrt(2.0 * (double)c->layers) : c->deviation);
    else if (strstr(parameter_name, "ln_") && text_ends_with(parameter_name, "weight"))
        out->mean = 1;
}

void gpt2_model(const gpt2_config *c, const char *name, model *m) {
    *m = (model){ .family = "gpt2",
                  .config = c,
                  .context = c->context,
                  .vocabulary = c->vocabulary,
                  .layers = c->layers,
                  .alike = true,
                  .packs = true,
                  .learned_positions = true,
                  .spelling = { .names_attended = true },
                  .build = build,
                  .initial = initial,
                  .fields = model_token_fields };
    snprintf(m->name, sizeof m->name, "%s", name);
}
