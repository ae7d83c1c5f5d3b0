#include "models/modernbert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "models/check.h"
#include "models/head.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/columns/columns.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/rotary/rotary.h"
#include "ops/silu/silu.h"

/* ---- configuration ---- */

int64_t modernbert_usual_mask(int64_t vocabulary) {
    enum { PUBLISHED = 50368, ITS_MASK = 50284 };
    return vocabulary == PUBLISHED ? ITS_MASK : vocabulary - 1;
}

status modernbert_check(const modernbert_config *c) {
    const model_range sizes[] = { { "num_hidden_layers", c->layers, 1, MODERNBERT_MOST_LAYERS },
                                  { "num_attention_heads", c->heads, 1, 4096 },
                                  { "hidden_size", c->channels, 1, 1 << 20 },
                                  { "intermediate_size", c->inner, 1, 1 << 22 },
                                  { "max_position_embeddings", c->context, 1, 1 << 24 },
                                  { "vocab_size", c->vocabulary, 1, 1 << 26 },
                                  { "local_attention", c->local, 1, 1 << 25 },
                                  { "mask_token_id", c->mask, 0, c->vocabulary - 1 },
                                  { "pad_token_id", c->padding, 0, c->vocabulary - 1 } };
    TRY(MODEL_CHECK_RANGES(sizes));
    TRY(model_check_heads("num_attention_heads", c->heads, "hidden_size", c->channels));
    int64_t size = c->channels / c->heads;
    if (size % 2 || size > ROTARY_MOST_TURNED)
        return status_set(
            STATUS_INVALID,
            "each head has %lld of the numbers of hidden_size, which turn with the position; it "
            "must be even, from 2 to %d",
            (long long)size, ROTARY_MOST_TURNED);
    const double dropout[] = { c->dropout_embedding, c->dropout_attention, c->dropout_feed, c->dropout_head };
    TRY(model_check_dropout(dropout, sizeof dropout / sizeof *dropout));
    TRY(model_check_epsilon("the norms' epsilon", c->epsilon));
    return model_check_deviation(c->deviation);
}

/* ---- parameters ---- */

typedef struct {
    const modernbert_config *c;
    graph *g;
    tensor_id key, segments; /* 0: not needed */
    tensor_id far, near;     /* angles of layers that see all, and of the others */
    int32_t stream;          /* of the next random node */
    int64_t layer;           /* < 0: outside of layers */
} builder;

enum { NAME_BYTES = 128, NO_LAYER = -1 };

static tensor_id parameter(const builder *b, const char *module, const char *suffix, shape s) {
    char name[NAME_BYTES];
    if (b->layer >= 0)
        snprintf(name, sizeof name, "model.layers.%lld.%s.%s", (long long)b->layer, module, suffix);
    else
        snprintf(name, sizeof name, "%s.%s", module, suffix);
    return model_parameter(b->g, name, s, s.rank > 1 ? TENSOR_DECAY : 0);
}

/* x W' + b */
static tensor_id linear(const builder *b, const char *module, tensor_id x, int64_t out, bool bias) {
    int64_t in = shape_last(graph_shape(b->g, x));
    tensor_id weight = parameter(b, module, "weight", SHAPE(out, in));
    return matmul_apply(b->g, &(matmul_inputs){ .a = x,
                                                .b = weight,
                                                .bias = bias ? parameter(b, module, "bias", SHAPE(out)) : 0,
                                                .tb = true });
}

static tensor_id norm(const builder *b, const char *module, tensor_id x) {
    shape width = SHAPE(b->c->channels);
    tensor_id gamma = parameter(b, module, "weight", width);
    return layernorm_apply(b->g, x, gamma, b->c->bias_norm ? parameter(b, module, "bias", width) : 0,
                           (float)b->c->epsilon);
}

static tensor_id drop(builder *b, tensor_id x, double p) {
    int32_t stream = b->stream++;
    return p > 0 && b->key ? dropout_apply(b->g, x, b->key, (float)p, stream) : x;
}

/* ---- the parts ---- */

/* Keys up to half of the window away are seen, to both sides. */
static tensor_id attend(builder *b, tensor_id x) {
    const modernbert_config *c = b->c;
    bool far = modernbert_sees_far(c, b->layer), random = b->key && c->dropout_attention > 0;
    int64_t size = c->channels / c->heads;
    rotary_attributes turned = { .heads = (int32_t)(2 * c->heads),
                                 .size = (int32_t)size,
                                 .turned = (int32_t)size };
    attention_attributes a = { .heads = (int32_t)c->heads,
                               .kv_heads = (int32_t)c->heads,
                               .dropout = random ? (float)c->dropout_attention : 0,
                               .stream = b->stream++,
                               .window = far ? 0 : (int32_t)(c->local / 2 + 1) };
    x = linear(b, "attn.Wqkv", x, 3 * c->channels, c->bias_attention);
    x = rotary_apply(b->g, x, far ? b->far : b->near, &turned);
    x = attention_apply(
        b->g, &(attention_inputs){ .q = x, .segments = b->segments, .key = random ? b->key : 0 }, &a);
    return drop(b, linear(b, "attn.Wo", x, c->channels, c->bias_attention), c->dropout_attention);
}

static tensor_id feed_forward(builder *b, tensor_id x) {
    static const gated_function functions[] = { [MODERNBERT_GELU] = GATED_GELU_ERF,
                                                [MODERNBERT_GELU_TANH] = GATED_GELU_TANH,
                                                [MODERNBERT_SILU] = GATED_SILU };
    const modernbert_config *c = b->c;
    int32_t inner = (int32_t)c->inner;
    tensor_id both = linear(b, "mlp.Wi", x, 2 * c->inner, c->bias_feed),
              gate = columns_apply(b->g, both, &(columns_attributes){ .width = inner, .count = 1 }),
              up = columns_apply(b->g, both,
                                 &(columns_attributes){ .start = inner, .width = inner, .count = 1 });
    x = drop(b, gated_apply(b->g, gate, up, functions[c->activation]), c->dropout_feed);
    return linear(b, "mlp.Wo", x, c->channels, c->bias_feed);
}

static tensor_id block(builder *b, tensor_id x) {
    b->g->site = (int32_t)b->layer;
    tensor_id normed = b->layer ? norm(b, "attn_norm", x) : x;
    x = add_apply(b->g, x, attend(b, normed));
    return add_apply(b->g, x, feed_forward(b, norm(b, "mlp_norm", x)));
}

static void make_angles(builder *b, int64_t rows) {
    const modernbert_config *c = b->c;
    bool far = false, near = false;
    for (int64_t i = 0; i < c->layers; i++)
        far |= modernbert_sees_far(c, i), near |= !modernbert_sees_far(c, i);
    rotary_angles_attributes a = { .rows = rows,
                                   .turned = (int32_t)(c->channels / c->heads),
                                   .theta = c->theta };
    if (far) b->far = rotary_angles_apply(b->g, 0, &a);
    a.theta = c->near_theta;
    if (near) b->near = rotary_angles_apply(b->g, 0, &a);
}

/* What logits of any kind are made of. */
static tensor_id judgment(builder *b, tensor_id x) {
    modernbert_activation f = b->c->judgment;
    x = linear(b, "head.dense", x, b->c->channels, b->c->bias_head);
    x = f == MODERNBERT_SILU ? silu_apply(b->g, x) : gelu_apply(b->g, x, f == MODERNBERT_GELU_TANH);
    return norm(b, "head.norm", x);
}

static tensor_id classify(builder *b, tensor_id x, int64_t labels) {
    x = drop(b, judgment(b, x), b->c->dropout_head);
    return linear(b, "classifier", x, labels, true);
}

static tensor_id fill(builder *b, tensor_id x, tensor_id words) {
    const modernbert_config *c = b->c;
    x = judgment(b, x);
    if (!c->tied) words = parameter(b, "decoder", "weight", SHAPE(c->vocabulary, c->channels));
    tensor_id bias = c->bias_words ? parameter(b, "decoder", "bias", SHAPE(c->vocabulary)) : 0;
    return matmul_apply(b->g, &(matmul_inputs){ .a = x, .b = words, .bias = bias, .tb = true });
}

/* ---- the whole ---- */

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const modernbert_config *c = m->config;
    builder b = { .c = c, .g = g, .layer = NO_LAYER };
    bool judges = m->head.kind != HEAD_LANGUAGE;
    bool random = c->dropout_embedding > 0 || c->dropout_attention > 0 || c->dropout_feed > 0 ||
                  ((judges || c->labels) && c->dropout_head > 0);
    if (!model_may_build(m, g, run)) return;
    *ports = (model_ports){ 0 };
    tensor_id tokens = model_input(g, "tokens", SHAPE(run->batch, run->context), DTYPE_I32);
    if (random && run->mode == MODEL_TRAIN) b.key = model_input(g, "key", SHAPE(4), DTYPE_I32);
    b.segments = judges ? head_segments(g, run) : model_segments(m, g, run);
    tensor_id words =
        parameter(&b, "model.embeddings.tok_embeddings", "weight", SHAPE(c->vocabulary, c->channels));

    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    make_angles(&b, run->context);
    tensor_id x = norm(&b, "model.embeddings.norm", embedding_apply(g, tokens, words));
    x = drop(&b, x, c->dropout_embedding);
    for (b.layer = 0; b.layer < c->layers; b.layer++) x = block(&b, x);
    b.layer = NO_LAYER;
    g->site = SITE_NONE;
    x = norm(&b, "model.final_norm", x);
    if (judges) {
        head_finish(m, g, classify(&b, head_first_token(g, x), m->head.outputs), run, ports);
        return;
    }
    ports->logits = c->labels ? classify(&b, x, c->labels) : fill(&b, x, words);
    tensor_id labels = model_input(g, "labels", SHAPE(run->batch, run->context), DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32);
    ports->loss = cross_entropy_apply(g, ports->logits, labels, scale, model_result(g, "loss"));
}

/* Normal weights, biases 0, scales of norms 1. What is added to a layer's input, and what is behind all of
 * them, is drawn narrower the more layers there are. */
static void initial(const model *m, const char *name, const shape *s, model_initial *out) {
    const modernbert_config *c = m->config;
    bool narrow = text_ends_with(name, ".Wo.weight") || strcmp(name, "head.dense.weight") == 0 ||
                  strcmp(name, "decoder.weight") == 0;
    *out = (model_initial){ .stream = model_stream(name) };
    if (s->rank < 2) {
        out->mean = text_ends_with(name, ".bias") ? 0 : 1;
        return;
    }
    double deviation = narrow ? c->deviation / sqrt(2 * (double)c->layers) : c->deviation;
    if (strcmp(name, "classifier.weight") == 0) deviation = 1 / sqrt((double)c->channels);
    out->deviation = (float)deviation;
}

void modernbert_model(const modernbert_config *c, const char *name, model *m) {
    *m = (model){ .family = "modernbert",
                  .config = c,
                  .context = c->context,
                  .vocabulary = c->vocabulary,
                  .layers = c->layers,
                  .judged_first = true,
                  .masks = true,
                  .mask = (int32_t)c->mask,
                  .packs = true,
                  .no_text = "an encoder fills gaps and can't continue a text; generate with a decoder",
                  .spelling = { .gelu_whole = true,
                                .wide_turns = true,
                                .narrow_angles = true,
                                .wide_loss = true,
                                .unbinds = true },
                  .untrained = c->untrained,
                  .build = build,
                  .initial = initial,
                  .fields = model_token_fields };
    snprintf(m->name, sizeof m->name, "%s", name);
}
