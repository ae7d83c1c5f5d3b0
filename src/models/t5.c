#include "models/t5.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "models/check.h"
#include "models/paged.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/matmul/matmul.h"
#include "ops/relative_bias/relative_bias.h"
#include "ops/relu/relu.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/scale/scale.h"
#include "ops/silu/silu.h"

const char *const t5_types[] = { "t5", "mt5", NULL };

/* ---- configuration ---- */

status t5_check(const t5_config *c) {
    const model_range sizes[] = { { "num_layers", c->layers, 1, 1024 },
                                  { "num_decoder_layers", c->decoder_layers, 1, 1024 },
                                  { "num_heads", c->heads, 1, 4096 },
                                  { "d_kv", c->head_size, 1, 1 << 16 },
                                  { "d_model", c->channels, 1, 1 << 20 },
                                  { "d_ff", c->inner, 1, 1 << 22 },
                                  { "n_positions", c->context, 1, 1 << 24 },
                                  { "vocab_size", c->vocabulary, 1, 1 << 26 },
                                  { "relative_attention_num_buckets", c->buckets, 4, 1 << 20 },
                                  { "relative_attention_max_distance", c->farthest, c->buckets / 2 + 1,
                                    1 << 24 } };
    TRY(MODEL_CHECK_RANGES(sizes));
    if (c->start >= c->vocabulary)
        return status_set(STATUS_INVALID,
                          "decoder_start_token_id is %lld, and vocab_size %lld; it must be below that",
                          (long long)c->start, (long long)c->vocabulary);
    TRY(model_check_dropout(&c->dropout, 1));
    TRY(model_check_epsilon("the norms' epsilon", c->epsilon));
    return model_check_between("initializer_factor", c->factor, 1000, 1);
}

/* ---- parameters ---- */

/* One of the two stacks while it is built. */
typedef struct {
    const char *name; /* "encoder" */
    bool decodes;
    tensor_id bias, encoded; /* encoded 0: the encoder itself, or sources that were read before */
    tensor_id lengths;       /* of what the encoder reads; 0 by rows */
} stack;

typedef struct {
    const t5_config *c;
    graph *g;
    const model_run *run;
    tensor_id key;     /* 0: not needed */
    int32_t stream;    /* of the next random node */
    paged_inputs rows; /* of programs by rows, */
    paged_cache cache; /* and what was written last */
    stack at;
    int64_t layer; /* of the stack */
} builder;

enum { NAME_BYTES = 128 };

static tensor_id parameter(builder *b, int sublayer, const char *module, shape s) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.block.%lld.layer.%d.%s.weight", b->at.name, (long long)b->layer, sublayer,
             module);
    return model_parameter(b->g, name, s, s.rank > 1 ? TENSOR_DECAY : 0);
}

static tensor_id linear(builder *b, int sublayer, const char *module, tensor_id x, int64_t out) {
    int64_t in = shape_last(graph_shape(b->g, x));
    tensor_id weight = parameter(b, sublayer, module, SHAPE(out, in));
    return matmul_apply(b->g, &(matmul_inputs){ .a = x, .b = weight, .tb = true });
}

static tensor_id norm_with(builder *b, tensor_id x, tensor_id gamma) {
    return rmsnorm_apply(b->g, x, gamma, &(rmsnorm_attributes){ .eps = (float)b->c->epsilon });
}

static tensor_id norm(builder *b, int sublayer, tensor_id x) {
    return norm_with(b, x, parameter(b, sublayer, "layer_norm", SHAPE(b->c->channels)));
}

static tensor_id drop(builder *b, tensor_id x) {
    int32_t stream = b->stream++;
    return b->key ? dropout_apply(b->g, x, b->key, (float)b->c->dropout, stream) : x;
}

/* ---- the parts ---- */

/* In programs by rows: of the encoder, or of the decoder to itself or to the text's source. Keys and values
 * of the encoder's layers are needed by their layer alone; they stand where the decoder's first layer is
 * going to find its own of the source, so they take no memory. */
static tensor_id attend_rows(builder *b, const paged_part parts[3], bool itself,
                             const attention_attributes *a) {
    const paged_inputs *rows = &b->rows;
    bool decodes = b->at.decodes;
    paged_view view = { rows->sources, rows->source_last, itself ? b->at.bias : 0, b->c->farthest };
    paged_layer in = { .q = parts[0], .k = parts[1], .v = parts[2], .layer = decodes ? b->layer : 0 };
    if (!view.bias) view.here = 0;
    if (itself && decodes) view.table = rows->table, view.last = rows->position;
    if (itself) {
        if (decodes) b->cache = (paged_cache){ 0 };
        b->cache = paged_write(b->g, rows, b->run->paged, &in, &b->cache, a->kv_heads);
    }
    return paged_look(b->g, rows, &in.q, &b->cache, &view, a);
}

static tensor_id attend_whole(builder *b, const paged_part parts[3], bool itself, attention_attributes *a) {
    attention_inputs in = { .q = parts[0].x,
                            .k = parts[1].x,
                            .v = parts[2].x,
                            .lengths = itself && b->at.decodes ? 0 : b->at.lengths,
                            .key = b->key,
                            .bias = itself ? b->at.bias : 0 };
    a->causal = itself && b->at.decodes;
    a->dropout = b->key ? (float)b->c->dropout : 0;
    a->stream = b->stream++;
    return attention_apply(b->g, &in, a);
}

/* Queries of x, keys and values of `other`; 0: of the text's source, which has them. */
static tensor_id attend(builder *b, int sublayer, const char *kind, tensor_id x, tensor_id other) {
    const t5_config *c = b->c;
    char module[32];
    bool itself = x == other;
    int64_t width = c->heads * c->head_size;
    paged_part parts[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        tensor_id of = i ? other : x;
        snprintf(module, sizeof module, "%s.%c", kind, "qkv"[i]);
        if (of) parts[i] = (paged_part){ linear(b, sublayer, module, of, width), 0, width };
    }
    attention_attributes a = { .heads = (int32_t)c->heads, .kv_heads = (int32_t)c->heads, .scale = 1 };
    tensor_id y = b->run->paged ? attend_rows(b, parts, itself, &a) : attend_whole(b, parts, itself, &a);
    snprintf(module, sizeof module, "%s.o", kind);
    return linear(b, sublayer, module, y, c->channels);
}

static tensor_id activate(builder *b, tensor_id x) {
    if (b->c->activation == T5_RELU) return relu_apply(b->g, x);
    if (b->c->activation == T5_SILU) return silu_apply(b->g, x);
    return gelu_apply(b->g, x, b->c->activation == T5_GELU_TANH);
}

static tensor_id feed_forward(builder *b, int sublayer, tensor_id x) {
    const t5_config *c = b->c;
    tensor_id wide;
    if (c->gated) {
        gated_function f = c->activation == T5_SILU   ? GATED_SILU
                           : c->activation == T5_GELU ? GATED_GELU_ERF
                                                      : GATED_GELU_TANH;
        tensor_id gate = linear(b, sublayer, "DenseReluDense.wi_0", x, c->inner);
        wide = gated_apply(b->g, gate, linear(b, sublayer, "DenseReluDense.wi_1", x, c->inner), f);
    } else {
        wide = activate(b, linear(b, sublayer, "DenseReluDense.wi", x, c->inner));
    }
    return linear(b, sublayer, "DenseReluDense.wo", drop(b, wide), c->channels);
}

static tensor_id block(builder *b, tensor_id x) {
    int sublayer = 0;
    tensor_id normed = norm(b, sublayer, x);
    x = add_apply(b->g, x, drop(b, attend(b, sublayer, "SelfAttention", normed, normed)));
    if (b->at.decodes) {
        sublayer++;
        normed = norm(b, sublayer, x);
        x = add_apply(b->g, x, drop(b, attend(b, sublayer, "EncDecAttention", normed, b->at.encoded)));
    }
    sublayer++;
    return add_apply(b->g, x, drop(b, feed_forward(b, sublayer, norm(b, sublayer, x))));
}

/* The bias by distance belongs to the first block by its name, and to all of them by its use. Of rows it is
 * that of each distance up to the farthest, beyond which all are alike. */
static tensor_id bias_by_distance(builder *b) {
    const t5_config *c = b->c;
    int64_t context = b->run->context, farthest = c->farthest;
    bool rows = b->run->paged != NULL, both_ways = !b->at.decodes;
    tensor_id table = parameter(b, 0, "SelfAttention.relative_attention_bias", SHAPE(c->buckets, c->heads));
    relative_bias_attributes a = { .queries = (int32_t)(rows ? 1 : context),
                                   .keys = (int32_t)(rows ? (1 + both_ways) * farthest + 1 : context),
                                   .both_ways = both_ways,
                                   .farthest = (int32_t)farthest,
                                   .place = (int32_t)(rows ? farthest : 0) };
    return relative_bias_apply(b->g, table, &a);
}

/* Blocks of the decoder are sites behind those of the encoder. */
static tensor_id run_stack(builder *b, stack s, tensor_id tokens, tensor_id words) {
    const t5_config *c = b->c;
    char name[NAME_BYTES];
    int64_t layers = s.decodes ? c->decoder_layers : c->layers, first = s.decodes ? c->layers : 0;
    b->at = s, b->layer = 0;
    b->g->site = SITE_NONE;
    tensor_id x = drop(b, embedding_apply(b->g, tokens, words));
    b->g->site = (int32_t)first;
    b->at.bias = bias_by_distance(b);
    for (; b->layer < layers; b->layer++) {
        b->g->site = (int32_t)(first + b->layer);
        x = block(b, x);
    }
    b->g->site = SITE_NONE;
    snprintf(name, sizeof name, "%s.final_layer_norm.weight", s.name);
    return drop(b, norm_with(b, x, model_parameter(b->g, name, SHAPE(c->channels), 0)));
}

/* ---- the whole ---- */

/* Sources are read before they are answered. */
static void read_sources(builder *b, tensor_id words) {
    const t5_config *c = b->c;
    int64_t width = c->heads * c->head_size;
    tensor_id tokens = model_input(b->g, "tokens", SHAPE(b->run->batch, b->run->context), DTYPE_I32);
    tensor_id encoded = run_stack(b, (stack){ .name = "encoder" }, tokens, words);
    b->at = (stack){ .name = "decoder", .decodes = true };
    for (b->layer = 0; b->layer < c->decoder_layers; b->layer++) {
        b->g->site = (int32_t)(c->layers + b->layer);
        paged_layer in = { .k = { linear(b, 1, "EncDecAttention.k", encoded, width), 0, width },
                           .v = { linear(b, 1, "EncDecAttention.v", encoded, width), 0, width },
                           .layer = b->layer };
        if (b->layer) b->cache = (paged_cache){ 0 };
        b->cache = paged_write(b->g, &b->rows, b->run->paged, &in, &b->cache, (int32_t)c->heads);
    }
    b->g->site = SITE_NONE;
}

static tensor_id logits_of(builder *b, tensor_id x, tensor_id words) {
    const t5_config *c = b->c;
    shape table = SHAPE(c->vocabulary, c->channels);
    tensor_id head = c->tied ? words : model_parameter(b->g, "lm_head.weight", table, TENSOR_DECAY);
    if (c->scaled) x = scale_apply(b->g, x, 0, (float)(1 / sqrt((double)c->channels)));
    return matmul_apply(b->g, &(matmul_inputs){ .a = x, .b = head, .tb = true });
}

/* Rows of answers. */
static tensor_id go_on(builder *b, tensor_id words) {
    tensor_id tokens = model_input(b->g, "tokens", SHAPE(b->run->batch, b->run->context), DTYPE_I32);
    tensor_id x = run_stack(b, (stack){ .name = "decoder", .decodes = true }, tokens, words);
    return logits_of(b, paged_wanted(b->g, &b->rows, x), words);
}

/* All answers at once, as training and validation have them. */
static tensor_id answer(builder *b, tensor_id words) {
    shape rows = SHAPE(b->run->batch, b->run->context);
    tensor_id source = model_input(b->g, "tokens", rows, DTYPE_I32);
    tensor_id target = model_input(b->g, "decoder_tokens", rows, DTYPE_I32);
    tensor_id lengths = model_input(b->g, "source_length", SHAPE(b->run->batch), DTYPE_I32);
    tensor_id encoded = run_stack(b, (stack){ .name = "encoder", .lengths = lengths }, source, words);
    stack decoder = { .name = "decoder", .decodes = true, .encoded = encoded, .lengths = lengths };
    return logits_of(b, run_stack(b, decoder, target, words), words);
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const t5_config *c = m->config;
    builder b = { .c = c, .g = g, .run = run };
    *ports = (model_ports){ 0 };
    if (run->mode == MODEL_TRAIN && c->dropout > 0) b.key = model_input(g, "key", SHAPE(4), DTYPE_I32);
    b.rows = paged_open(g, run);
    tensor_id words = model_parameter(g, "shared.weight", SHAPE(c->vocabulary, c->channels), TENSOR_DECAY);
    g->phase = PHASE_FORWARD;
    if (run->mode == MODEL_SOURCES) {
        read_sources(&b, words);
        return;
    }
    ports->logits = run->mode == MODEL_ROWS ? go_on(&b, words) : answer(&b, words);
    if (run->mode == MODEL_ROWS) return;
    tensor_id labels = model_input(g, "labels", SHAPE(run->batch, run->context), DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32);
    ports->loss = cross_entropy_apply(g, ports->logits, labels, scale, model_result(g, "loss"));
}

/* As the paper has it: what goes into a sum is drawn narrower the more there are of it. */
static void initial(const model *m, const char *name, const shape *s, model_initial *out) {
    const t5_config *c = m->config;
    double width = (double)c->channels, inner = (double)(c->heads * c->head_size), deviation = 1;
    *out = (model_initial){ .mean = s->rank > 1 ? 0 : 1, .stream = model_stream(name) };
    if (s->rank < 2) return;
    if (text_ends_with(name, ".q.weight"))
        deviation = 1 / sqrt(width * (double)c->head_size);
    else if (text_ends_with(name, "ention.o.weight"))
        deviation = 1 / sqrt(inner);
    else if (text_ends_with(name, ".wo.weight"))
        deviation = 1 / sqrt((double)c->inner);
    else if (strstr(name, ".block."))
        deviation = 1 / sqrt(width);
    out->deviation = (float)(c->factor * deviation);
}

static uint32_t fields(const model *m, int64_t context, model_field out[MODEL_MAX_FIELDS]) {
    uint32_t count = model_token_fields(m, context, out);
    out[count++] = (model_field){ .name = "decoder_tokens", .of = SHAPE(context), .dtype = DTYPE_I32 };
    out[count++] = (model_field){ .name = "source_length", .dtype = DTYPE_I32 };
    return count;
}

void t5_model(const t5_config *c, const char *name, model *m) {
    *m = (model){ .family = c->type,
                  .config = c,
                  .context = c->context,
                  .vocabulary = c->vocabulary,
                  .layers = c->layers + c->decoder_layers,
                  .answers = true,
                  .start = (int32_t)c->start,
                  .build = build,
                  .initial = initial,
                  .fields = fields };
    snprintf(m->name, sizeof m->name, "%s", name);
}
