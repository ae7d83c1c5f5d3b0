#include "models/encoder.h"

#include <stdio.h>
#include <string.h>

#include "models/check.h"
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
#include "ops/relu/relu.h"
#include "ops/reshape/reshape.h"
#include "ops/softcap/softcap.h"

/* ---- kinds ---- */

#define LAYER_NAMES                                                                                          \
    .q = "attention.self.query", .k = "attention.self.key", .v = "attention.self.value",                     \
    .o = "attention.output.dense", .attention_norm = "attention.output.LayerNorm",                           \
    .up = "intermediate.dense", .down = "output.dense", .feed_norm = "output.LayerNorm"

/* RoBERTa and what was built as it was; `stem`: what its weights' names begin with. */
#define ROBERTA(stem)                                                                                        \
    .words = stem ".embeddings.word_embeddings", .positions = stem ".embeddings.position_embeddings",        \
    .types = stem ".embeddings.token_type_embeddings", .norm = stem ".embeddings.LayerNorm",                 \
    .layers = stem ".encoder.layer", LAYER_NAMES, .head = "lm_head.dense",                                   \
    .head_norm = "lm_head.layer_norm", .head_bias = "lm_head.bias", .judge_layer = "classifier.dense",       \
    .judge = "classifier.out_proj", .judge_drops_first = true, .after_padding = true, .head_erf = true,      \
    .mask_is_last = true

const encoder_kind encoder_kinds[] = {
    { .type = "bert",
      .architecture = "BertForMaskedLM",
      .words = "bert.embeddings.word_embeddings",
      .positions = "bert.embeddings.position_embeddings",
      .types = "bert.embeddings.token_type_embeddings",
      .norm = "bert.embeddings.LayerNorm",
      .layers = "bert.encoder.layer",
      LAYER_NAMES,
      .head = "cls.predictions.transform.dense",
      .head_norm = "cls.predictions.transform.LayerNorm",
      .head_bias = "cls.predictions.bias",
      .judge_layer = "bert.pooler.dense",
      .judge = "classifier" },
    { .type = "roberta", .architecture = "RobertaForMaskedLM", ROBERTA("roberta") },
    { .type = "xlm-roberta", .architecture = "XLMRobertaForMaskedLM", ROBERTA("roberta") },
    { .type = "camembert", .architecture = "CamembertForMaskedLM", ROBERTA("roberta") },
    { .type = "data2vec-text", .architecture = "Data2VecTextForMaskedLM", ROBERTA("data2vec_text") },
    { .type = "distilbert",
      .architecture = "DistilBertForMaskedLM",
      .words = "distilbert.embeddings.word_embeddings",
      .positions = "distilbert.embeddings.position_embeddings",
      .norm = "distilbert.embeddings.LayerNorm",
      .layers = "distilbert.transformer.layer",
      .q = "attention.q_lin",
      .k = "attention.k_lin",
      .v = "attention.v_lin",
      .o = "attention.out_lin",
      .attention_norm = "sa_layer_norm",
      .up = "ffn.lin1",
      .down = "ffn.lin2",
      .feed_norm = "output_layer_norm",
      .head = "vocab_transform",
      .head_norm = "vocab_layer_norm",
      .head_bias = "vocab_projector.bias",
      .judge_layer = "pre_classifier",
      .judge = "classifier",
      .judge_relu = true,
      .attended_whole = true },
    { 0 }
};

const encoder_kind *encoder_kind_find(const char *type) {
    for (const encoder_kind *k = encoder_kinds; k->type; k++)
        if (strcmp(k->type, type) == 0) return k;
    return NULL;
}

int64_t encoder_usual_mask(const encoder_kind *k, int64_t vocabulary) {
    enum { WORD_PIECES = 20000, MASK_OF_WORD_PIECES = 103 }; /* published ones have more entries than these */
    return k->mask_is_last || vocabulary < WORD_PIECES ? vocabulary - 1 : MASK_OF_WORD_PIECES;
}

/* ---- configuration ---- */

static status check_sizes(const encoder_config *c) {
    const model_range sizes[] = { { "num_hidden_layers", c->layers, 1, ENCODER_MOST_LAYERS },
                                  { "num_attention_heads", c->heads, 1, 4096 },
                                  { "hidden_size", c->channels, 1, 1 << 20 },
                                  { "intermediate_size", c->inner, 1, 1 << 22 },
                                  { "max_position_embeddings", c->positions, 1, 1 << 24 },
                                  { "vocab_size", c->vocabulary, 1, 1 << 26 },
                                  { "type_vocab_size", c->types, c->kind->types ? 1 : 0, 1 << 16 },
                                  { "mask_token_id", c->mask, 0, c->vocabulary - 1 },
                                  { "pad_token_id", c->padding, 0, 1 << 24 } };
    TRY(MODEL_CHECK_RANGES(sizes));
    TRY(model_check_heads("num_attention_heads", c->heads, "hidden_size", c->channels));
    if (encoder_first_position(c) >= c->positions)
        return status_set(STATUS_INVALID,
                          "max_position_embeddings is %lld, and the first position of %s stands behind "
                          "pad_token_id %lld; it must be larger",
                          (long long)c->positions, c->kind->type, (long long)c->padding);
    return STATUS_OK;
}

status encoder_check(const encoder_config *c) {
    TRY(check_sizes(c));
    TRY(model_check_dropout((double[]){ c->dropout, c->dropout_attention, c->dropout_head }, 3));
    TRY(model_check_epsilon("the norms' epsilon", c->epsilon));
    return model_check_deviation(c->deviation);
}

/* ---- parameters ---- */

typedef struct {
    const encoder_config *c;
    graph *g;
    model_mode mode;
    tensor_id key, segments, positions, types; /* 0: not needed */
    int32_t stream;                            /* of the next random node */
    paged_whole rows;                          /* of MODEL_ROWS, */
    const paged_sizes *paged;                  /* and its cache */
} builder;

enum { NAME_BYTES = 128, NO_LAYER = -1 };

static tensor_id parameter(builder *b, int64_t layer, const char *module, const char *suffix, shape s) {
    char name[NAME_BYTES];
    if (layer >= 0)
        snprintf(name, sizeof name, "%s.%lld.%s%s", b->c->kind->layers, (long long)layer, module, suffix);
    else
        snprintf(name, sizeof name, "%s%s", module, suffix);
    return model_parameter(b->g, name, s, s.rank > 1 ? TENSOR_DECAY : 0);
}

/* x W' + b */
static tensor_id linear(builder *b, int64_t layer, const char *module, tensor_id x, int64_t out) {
    int64_t in = shape_last(graph_shape(b->g, x));
    tensor_id weight = parameter(b, layer, module, ".weight", SHAPE(out, in));
    return matmul_apply(b->g, &(matmul_inputs){ .a = x,
                                                .b = weight,
                                                .bias = parameter(b, layer, module, ".bias", SHAPE(out)),
                                                .tb = true });
}

static tensor_id norm(builder *b, int64_t layer, const char *module, tensor_id x) {
    shape width = SHAPE(b->c->channels);
    return layernorm_apply(b->g, x, parameter(b, layer, module, ".weight", width),
                           parameter(b, layer, module, ".bias", width), (float)b->c->epsilon);
}

static tensor_id drop_by(builder *b, tensor_id x, double p) {
    int32_t stream = b->stream++;
    return p > 0 && b->mode == MODEL_TRAIN ? dropout_apply(b->g, x, b->key, (float)p, stream) : x;
}

static tensor_id drop(builder *b, tensor_id x) { return drop_by(b, x, b->c->dropout); }

/* ---- the parts ---- */

/* Without types all tokens are of the first one. */
static tensor_id add_types(builder *b, tensor_id x, tensor_id table) {
    if (b->types) return add_apply(b->g, x, embedding_apply(b->g, b->types, table));
    return add_positions_at(b->g, x, table, &(add_positions_attributes){ .still = 1 });
}

/* Rows have each its own. */
static tensor_id add_places(builder *b, tensor_id x, tensor_id table) {
    tensor_id places = b->positions;
    int64_t first = encoder_first_position(b->c);
    if (b->mode == MODEL_ROWS)
        places = reshape_apply(b->g, b->rows.place, SHAPE(1, graph_shape(b->g, b->rows.place)->dim[0]));
    if (places) return add_apply(b->g, x, embedding_apply(b->g, places, table));
    return add_positions_at(b->g, x, table, &(add_positions_attributes){ .first = (int32_t)first });
}

static tensor_id embed(builder *b, tensor_id tokens, tensor_id words) {
    const encoder_config *c = b->c;
    const encoder_kind *k = c->kind;
    tensor_id x = embedding_apply(b->g, tokens, words);
    if (k->types)
        x = add_types(b, x, parameter(b, NO_LAYER, k->types, ".weight", SHAPE(c->types, c->channels)));
    tensor_id table = parameter(b, NO_LAYER, k->positions, ".weight", SHAPE(c->positions, c->channels));
    return drop(b, norm(b, NO_LAYER, k->norm, add_places(b, x, table)));
}

static tensor_id attend_rows(builder *b, int64_t layer, const attention_inputs *in,
                             const attention_attributes *a) {
    int64_t width = b->c->channels;
    paged_layer parts = { .q = { .x = in->q, .width = width },
                          .k = { .x = in->k, .width = width },
                          .v = { .x = in->v, .width = width },
                          .layer = layer };
    return paged_attend_whole(b->g, &b->rows, b->paged, &parts, a);
}

static tensor_id attend(builder *b, int64_t layer, tensor_id x) {
    const encoder_config *c = b->c;
    const encoder_kind *k = c->kind;
    bool random = b->mode == MODEL_TRAIN && c->dropout_attention > 0;
    attention_attributes a = { .heads = (int32_t)c->heads,
                               .kv_heads = (int32_t)c->heads,
                               .dropout = random ? (float)c->dropout_attention : 0,
                               .stream = b->stream++ };
    attention_inputs in = { .q = linear(b, layer, k->q, x, c->channels),
                            .k = linear(b, layer, k->k, x, c->channels),
                            .v = linear(b, layer, k->v, x, c->channels),
                            .segments = b->segments,
                            .key = random ? b->key : 0 };
    tensor_id attended =
        b->mode == MODEL_ROWS ? attend_rows(b, layer, &in, &a) : attention_apply(b->g, &in, &a);
    return linear(b, layer, k->o, attended, c->channels);
}

static tensor_id block(builder *b, int64_t layer, tensor_id x) {
    const encoder_kind *k = b->c->kind;
    b->g->site = (int32_t)layer;
    tensor_id attended = attend(b, layer, x);
    if (!k->attended_whole) attended = drop(b, attended);
    x = norm(b, layer, k->attention_norm, add_apply(b->g, x, attended));
    tensor_id wide = gelu_apply(b->g, linear(b, layer, k->up, x, b->c->inner), b->c->tanh);
    tensor_id fed = drop(b, linear(b, layer, k->down, wide, b->c->channels));
    return norm(b, layer, k->feed_norm, add_apply(b->g, x, fed));
}

static tensor_id classifier(builder *b, tensor_id x) {
    return linear(b, NO_LAYER, "classifier", drop(b, x), b->c->labels);
}

static tensor_id head(builder *b, tensor_id x, tensor_id words) {
    const encoder_config *c = b->c;
    const encoder_kind *k = c->kind;
    bool tanh = c->tanh && !k->head_erf;
    x = gelu_apply(b->g, linear(b, NO_LAYER, k->head, x, c->channels), tanh);
    tensor_id bias = parameter(b, NO_LAYER, k->head_bias, "", SHAPE(c->vocabulary));
    return matmul_apply(
        b->g,
        &(matmul_inputs){ .a = norm(b, NO_LAYER, k->head_norm, x), .b = words, .bias = bias, .tb = true });
}

static tensor_id tanh_of(builder *b, tensor_id x) { return softcap_apply(b->g, x, 1); }

/* ...ForSequenceClassification: each kind has a layer of its own between the first token and its logits. */
static void judge(const model *m, builder *b, tensor_id x, const model_run *run, model_ports *ports) {
    const encoder_config *c = b->c;
    const encoder_kind *k = c->kind;
    x = head_first_token(b->g, x);
    if (k->judge_drops_first) x = drop_by(b, x, c->dropout_head);
    x = linear(b, NO_LAYER, k->judge_layer, x, c->channels);
    x = k->judge_relu ? relu_apply(b->g, x) : tanh_of(b, x);
    x = drop_by(b, x, c->dropout_head);
    head_finish(m, b->g, linear(b, NO_LAYER, k->judge, x, m->head.outputs), run, ports);
}

/* ---- the whole ---- */

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const encoder_config *c = m->config;
    builder b = { .c = c, .g = g, .mode = run->mode, .paged = run->paged };
    bool judges = m->head.kind != HEAD_LANGUAGE;
    bool random = run->mode == MODEL_TRAIN &&
                  (c->dropout > 0 || c->dropout_attention > 0 || (judges && c->dropout_head > 0));
    if (!model_may_build(m, g, run)) return;
    *ports = (model_ports){ 0 };
    tensor_id tokens = model_input(g, "tokens", SHAPE(run->batch, run->context), DTYPE_I32);
    if (random) b.key = model_input(g, "key", SHAPE(4), DTYPE_I32);
    b.segments = judges ? head_segments(g, run) : model_segments(m, g, run);
    b.positions = model_positions(m, g, run);
    if (run->mode == MODEL_ROWS) b.rows = paged_open_whole(g, run);
    if (m->typed) b.types = model_input(g, "types", SHAPE(run->batch, run->context), DTYPE_I32);
    tensor_id words = parameter(&b, NO_LAYER, c->kind->words, ".weight", SHAPE(c->vocabulary, c->channels));

    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    tensor_id x = embed(&b, tokens, words);
    for (int64_t layer = 0; layer < c->layers; layer++) x = block(&b, layer, x);
    g->site = SITE_NONE;
    if (run->mode == MODEL_ROWS) {
        ports->hidden = model_shown(g, x);
        return;
    }
    if (judges) {
        judge(m, &b, x, run, ports);
        return;
    }
    ports->logits = c->labels ? classifier(&b, x) : head(&b, x, words);
    tensor_id labels = model_input(g, "labels", SHAPE(run->batch, run->context), DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32);
    ports->loss = cross_entropy_apply(g, ports->logits, labels, scale, model_result(g, "loss"));
}

/* Normal weights, biases 0, scales of norms 1. */
static void initial(const model *m, const char *parameter_name, const shape *s, model_initial *out) {
    const encoder_config *c = m->config;
    size_t length = strlen(parameter_name);
    bool bias = length > 5 && strcmp(parameter_name + length - 5, ".bias") == 0;
    *out = (model_initial){ .stream = model_stream(parameter_name) };
    if (s->rank > 1)
        out->deviation = (float)c->deviation;
    else if (!bias)
        out->mean = 1;
}

void encoder_model(const encoder_config *c, const char *name, model *m) {
    *m = (model){ .family = c->kind->type,
                  .config = c,
                  .context = c->positions - encoder_first_position(c),
                  .vocabulary = c->vocabulary,
                  .layers = c->layers,
                  .judged_first = true,
                  .masks = true,
                  .mask = (int32_t)c->mask,
                  .packs = true,
                  .types = c->kind->types && c->types > 1 ? c->types : 0,
                  .learned_positions = true,
                  .first_position = (int32_t)encoder_first_position(c),
                  .reads_whole = true,
                  .no_text = "an encoder fills gaps and can't continue a text; generate with a decoder",
                  .untrained = c->untrained,
                  .build = build,
                  .initial = initial,
                  .fields = model_token_fields };
    snprintf(m->name, sizeof m->name, "%s", name);
}
