#include "models/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "models/check.h"
#include "models/head.h"
#include "models/paged.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/clamp/clamp.h"
#include "ops/columns/columns.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/multiply/multiply.h"
#include "ops/relu/relu.h"
#include "ops/reshape/reshape.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/scale/scale.h"
#include "ops/silu/silu.h"
#include "ops/softcap/softcap.h"

/* ---- configuration ---- */

static status check_sizes(const decoder_config *c) {
    const model_range sizes[] = { { "num_hidden_layers", c->layers, 1, DECODER_MOST_LAYERS },
                                  { "num_attention_heads", c->heads, 1, 4096 },
                                  { "num_key_value_heads", c->kv_heads, 1, 4096 },
                                  { "head_dim", c->head_size, 1, 1 << 16 },
                                  { "hidden_size", c->channels, 1, 1 << 20 },
                                  { "intermediate_size", c->inner, 1, 1 << 22 },
                                  { "max_position_embeddings", c->context, 1, 1 << 24 },
                                  { "vocab_size", c->vocabulary, 1, 1 << 26 } };
    TRY(MODEL_CHECK_RANGES(sizes));
    if (c->heads % c->kv_heads)
        return status_set(STATUS_INVALID,
                          "num_attention_heads %lld cannot share num_key_value_heads %lld; it must be a "
                          "multiple",
                          (long long)c->heads, (long long)c->kv_heads);
    bool shares = c->kind->packing != DECODER_BY_HEAD || c->kind->keys.kv_heads;
    if (!shares && c->heads != c->kv_heads)
        return status_set(STATUS_INVALID,
                          "%s packs q, k and v of each head, so num_key_value_heads cannot be "
                          "%lld beside %lld heads",
                          c->kind->type, (long long)c->kv_heads, (long long)c->heads);
    return c->kind->experts ? decoder_experts_check(&c->experts, c->kind->experts) : STATUS_OK;
}

/* A number for each pair that turns, and no more. */
static status check_pairs(const rotary_angles_attributes *r) {
    int32_t pairs = r->turned / 2;
    for (int32_t i = 0; i < ROTARY_MOST_TURNED / 2; i++)
        if ((r->near[i] > 0) != (i < pairs) || (r->far[i] > 0) != (i < pairs))
            return status_set(
                STATUS_INVALID,
                "short_factor and long_factor need a number above 0 for each of the %d pairs of a "
                "head that turn with the position",
                pairs);
    return STATUS_OK;
}

status decoder_check(const decoder_config *c) {
    TRY(check_sizes(c));
    int32_t turned = c->rotary.turned;
    if (turned < 2 || turned % 2 || turned > c->head_size || turned > ROTARY_MOST_TURNED)
        return status_set(
            STATUS_INVALID,
            "%d of %lld numbers of a head turn with the position; it must be even, from 2 to %d", turned,
            (long long)c->head_size, ROTARY_MOST_TURNED);
    if (c->rotary.stretch == ROTARY_LONG) TRY(check_pairs(&c->rotary));
    if (c->rotary.stretch == ROTARY_YARN && !(c->rotary.theta > 1))
        return status_set(STATUS_INVALID, "yarn needs a rope_theta above 1, not %g", c->rotary.theta);
    if (!(c->rotary.theta >= 1 && c->rotary.theta < 1e12) || !(c->near_theta >= 0 && c->near_theta < 1e12))
        return status_set(STATUS_INVALID, "rope_theta is %g; it must be from 1 to 1e12", c->rotary.theta);
    if (c->window < 0 || c->window > 1 << 24)
        return status_set(STATUS_INVALID, "sliding_window is %lld; it must be from 0 to %d",
                          (long long)c->window, 1 << 24);
    const double dropout[] = { c->dropout_embedding, c->dropout_attention, c->dropout_residual };
    TRY(model_check_dropout(dropout, sizeof dropout / sizeof *dropout));
    TRY(model_check_epsilon("the norms' epsilon", c->epsilon));
    return model_check_deviation(c->deviation);
}

/* ---- parameters ---- */

typedef struct {
    const decoder_config *c;
    graph *g;
    model_mode mode;
    tensor_id key, position, segments; /* 0: not needed; position: of rows */
    paged_inputs rows;                 /* of MODEL_ROWS, */
    const paged_sizes *paged;          /* and its caches */
    tensor_id far, near;               /* angles of layers without and with a window; 0: not made yet */
    int32_t stream;                    /* of the next random node */
    decoder_routed routed[DECODER_MOST_LAYERS];
} builder;

enum { NAME_BYTES = 128, NO_LAYER = -1 };

static tensor_id parameter(builder *b, int64_t layer, const char *module, const char *suffix, shape s) {
    char name[NAME_BYTES];
    if (layer >= 0)
        snprintf(name, sizeof name, "%s.%lld.%s.%s", b->c->kind->layers, (long long)layer, module, suffix);
    else
        snprintf(name, sizeof name, "%s.%s", module, suffix);
    return model_parameter(b->g, name, s, s.rank > 1 ? TENSOR_DECAY : 0);
}

/* x W' + b */
static tensor_id linear(builder *b, int64_t layer, const char *module, tensor_id x, int64_t out, bool bias) {
    int64_t in = shape_last(graph_shape(b->g, x));
    tensor_id weight = parameter(b, layer, module, "weight", SHAPE(out, in));
    return matmul_apply(b->g,
                        &(matmul_inputs){ .a = x,
                                          .b = weight,
                                          .bias = bias ? parameter(b, layer, module, "bias", SHAPE(out)) : 0,
                                          .tb = true });
}

/* Over the last dimension; of every head, where that is what x has there. */
static tensor_id norm(builder *b, int64_t layer, const char *module, tensor_id x) {
    const decoder_kind *k = b->c->kind;
    shape width = SHAPE(shape_last(graph_shape(b->g, x)));
    tensor_id gamma = parameter(b, layer, module, "weight", width);
    if (k->layer_norm) {
        tensor_id beta = k->bare_norms ? 0 : parameter(b, layer, module, "bias", width);
        return layernorm_apply(b->g, x, gamma, beta, (float)b->c->epsilon);
    }
    return rmsnorm_apply(
        b->g, x, gamma,
        &(rmsnorm_attributes){ .eps = (float)b->c->epsilon, .plus = k->around_one ? 1.0f : 0.0f });
}

static tensor_id drop(builder *b, tensor_id x, double p) {
    int32_t stream = b->stream++;
    return p > 0 && b->mode == MODEL_TRAIN ? dropout_apply(b->g, x, b->key, (float)p, stream) : x;
}

/* ---- attention ---- */

typedef struct {
    tensor_id q, k, v; /* k and v 0: q is all three */
} projected;

static tensor_id norm_heads(builder *b, int64_t layer, const char *module, tensor_id x) {
    shape rows = *graph_shape(b->g, x);
    int64_t heads = shape_last(&rows) / b->c->head_size;
    if (!module || (b->c->kind->norms_asked && !b->c->head_norms)) return x;
    if (b->c->kind->whole_norms) return norm(b, layer, module, x);
    x = reshape_apply(b->g, x, SHAPE(rows.dim[0], rows.dim[1], heads, b->c->head_size));
    return reshape_apply(b->g, norm(b, layer, module, x), rows);
}

static tensor_id bounded(builder *b, tensor_id x) {
    return b->c->bound_qkv > 0 ? clamp_apply(b->g, x, (float)b->c->bound_qkv) : x;
}

static tensor_id turn(builder *b, int64_t layer, tensor_id x, int64_t heads) {
    if (!decoder_turns(b->c, layer)) return x;
    tensor_id angles = decoder_sees_far(b->c, layer) || !b->near ? b->far : b->near;
    return rotary_apply(b->g, x, angles,
                        &(rotary_attributes){ .heads = (int32_t)heads,
                                              .size = (int32_t)b->c->head_size,
                                              .turned = b->c->rotary.turned,
                                              .neighbours = b->c->kind->neighbours });
}

/* Queries or keys as attention reads them. */
static tensor_id placed(builder *b, int64_t layer, const char *module, tensor_id x, int64_t heads) {
    bool turned_first = b->c->kind->turned_first;
    if (!turned_first) x = norm_heads(b, layer, module, x);
    x = turn(b, layer, bounded(b, x), heads);
    return turned_first ? norm_heads(b, layer, module, x) : x;
}

static tensor_id part(builder *b, tensor_id x, columns_attributes of) { return columns_apply(b->g, x, &of); }

/* q, k and v as three values. */
static projected unpack(builder *b, tensor_id x) {
    const decoder_config *c = b->c;
    int32_t q = (int32_t)(c->heads * c->head_size), k = (int32_t)(c->kv_heads * c->head_size),
            size = (int32_t)c->head_size, keys = (int32_t)c->kv_heads, queries = q / keys; /* of a key */
    if (c->kind->packing == DECODER_PACKED)
        return (projected){ part(b, x, (columns_attributes){ 0, q, 0, 1 }),
                            part(b, x, (columns_attributes){ q, k, 0, 1 }),
                            part(b, x, (columns_attributes){ q + k, k, 0, 1 }) };
    int32_t all = queries + 2 * size;
    return (projected){ part(b, x, (columns_attributes){ 0, queries, all, keys }),
                        part(b, x, (columns_attributes){ queries, size, all, keys }),
                        part(b, x, (columns_attributes){ queries + size, size, all, keys }) };
}

static projected project(builder *b, int64_t layer, tensor_id x) {
    const decoder_config *c = b->c;
    const decoder_kind *k = c->kind;
    int64_t width = c->heads * c->head_size, kv_width = c->kv_heads * c->head_size;
    projected p = { 0 };
    if (k->packing == DECODER_APART) {
        p.q = linear(b, layer, k->q, x, width, c->bias_qkv);
        p.k = linear(b, layer, k->k, x, kv_width, c->bias_qkv);
        p.v = linear(b, layer, k->v, x, kv_width, c->bias_qkv);
    } else {
        p.q = linear(b, layer, k->q, x, width + 2 * kv_width, c->bias_qkv);
        if (k->packing == DECODER_PACKED && !model_mode_continues(b->mode)) {
            p.q = turn(b, layer, p.q, c->heads + c->kv_heads);
            return p;
        }
        p = unpack(b, p.q);
    }
    p.q = placed(b, layer, k->q_norm, p.q, c->heads);
    p.k = placed(b, layer, k->k_norm, p.k, c->kv_heads);
    p.v = bounded(b, p.v);
    return p;
}

static tensor_id attend_cached(builder *b, int64_t layer, const projected *p, const attention_attributes *a) {
    int64_t width = b->c->heads * b->c->head_size, kv_width = b->c->kv_heads * b->c->head_size;
    paged_layer in = {
        .q = { p->q, 0, width }, .k = { p->k, 0, kv_width }, .v = { p->v, 0, kv_width }, .layer = layer
    };
    return paged_attend(b->g, &b->rows, b->paged, &in, a);
}

static tensor_id attend(builder *b, int64_t layer, tensor_id x) {
    const decoder_config *c = b->c;
    bool random = b->mode == MODEL_TRAIN && c->dropout_attention > 0;
    attention_attributes a = { .heads = (int32_t)c->heads,
                               .kv_heads = (int32_t)c->kv_heads,
                               .causal = 1,
                               .scale = (float)c->attention_scale,
                               .dropout = random ? (float)c->dropout_attention : 0,
                               .stream = b->stream++,
                               .window = decoder_sees_far(c, layer) ? 0 : (int32_t)c->window,
                               .cap = (float)c->cap_scores };
    projected p = project(b, layer, x);
    tensor_id attended =
        model_mode_continues(b->mode)
            ? attend_cached(b, layer, &p, &a)
            : attention_apply(
                  b->g,
                  &(attention_inputs){
                      .q = p.q, .k = p.k, .v = p.v, .segments = b->segments, .key = random ? b->key : 0 },
                  &a);
    return linear(b, layer, c->kind->o, attended, c->channels, c->bias_o);
}

/* ---- the rest of a block ---- */

static tensor_id activate(builder *b, tensor_id x) {
    if (b->c->activation == DECODER_RELU2) {
        x = relu_apply(b->g, x);
        return multiply_apply(b->g, x, x);
    }
    if (b->c->activation == DECODER_SILU) return silu_apply(b->g, x);
    return gelu_apply(b->g, x, b->c->activation == DECODER_GELU_TANH);
}

static gated_function gate_function(const decoder_config *c) {
    return c->activation == DECODER_SILU        ? GATED_SILU
           : c->activation == DECODER_GELU_TANH ? GATED_GELU_TANH
                                                : GATED_GELU_ERF;
}

static tensor_id gated(builder *b, int64_t layer, tensor_id x) {
    const decoder_config *c = b->c;
    tensor_id gate, up;
    if (c->kind->gate_up_packed) {
        tensor_id both = linear(b, layer, c->kind->up, x, 2 * c->inner, c->bias_feed);
        gate = part(b, both, (columns_attributes){ 0, (int32_t)c->inner, 0, 1 });
        up = part(b, both, (columns_attributes){ (int32_t)c->inner, (int32_t)c->inner, 0, 1 });
    } else {
        gate = linear(b, layer, c->kind->gate, x, c->inner, c->bias_feed);
        up = linear(b, layer, c->kind->up, x, c->inner, c->bias_feed);
    }
    return gated_apply(b->g, gate, up, gate_function(c));
}

static tensor_id feed_forward(builder *b, int64_t layer, tensor_id x) {
    const decoder_config *c = b->c;
    if (decoder_experts_at(&c->experts, layer)) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%s.%lld.", c->kind->layers, (long long)layer);
        return decoder_experts_apply(b->g, &c->experts, prefix, gate_function(c), x, &b->routed[layer]);
    }
    tensor_id wide = c->kind->gate ? gated(b, layer, x)
                                   : activate(b, linear(b, layer, c->kind->up, x, c->inner, c->bias_feed));
    return linear(b, layer, c->kind->down, wide, c->channels, c->bias_feed);
}

static tensor_id times(builder *b, tensor_id x, double factor) {
    return factor > 0 ? scale_apply(b->g, x, 0, (float)factor) : x;
}

static tensor_id half_block(builder *b, int64_t layer, tensor_id x, const char *after, double dropout) {
    if (after) x = norm(b, layer, after, x);
    return times(b, drop(b, x, dropout), b->c->residual_factor);
}

static tensor_id norm_before(builder *b, int64_t layer, const char *module, tensor_id x) {
    return module ? norm(b, layer, module, x) : x;
}

static tensor_id block(builder *b, int64_t layer, tensor_id x) {
    const decoder_kind *k = b->c->kind;
    b->g->site = (int32_t)layer;
    tensor_id normed = norm_before(b, layer, k->attention_norm, x);
    double dropout = b->c->dropout_residual;
    tensor_id attended =
        half_block(b, layer, attend(b, layer, normed), k->after_attention, k->drops_feed ? 0 : dropout);
    if (b->c->order == DECODER_SERIAL) {
        x = add_apply(b->g, x, attended);
        tensor_id fed = feed_forward(b, layer, norm_before(b, layer, k->feed_norm, x));
        return add_apply(b->g, x, half_block(b, layer, fed, k->after_feed, dropout));
    }
    if (b->c->order == DECODER_PARALLEL_TWO_NORMS) normed = norm(b, layer, k->feed_norm, x);
    tensor_id fed = half_block(b, layer, feed_forward(b, layer, normed), k->after_feed, dropout);
    return add_apply(b->g, add_apply(b->g, x, attended), fed);
}

/* ---- the whole ---- */

static void make_angles(builder *b, int64_t rows) {
    rotary_angles_attributes a = b->c->rotary;
    a.rows = rows;
    b->far = rotary_angles_apply(b->g, b->position, &a);
    if (b->c->near_theta <= 0 || !b->c->window) return;
    a.theta = b->c->near_theta, a.stretch = ROTARY_PLAIN, a.gain = 0;
    b->near = rotary_angles_apply(b->g, b->position, &a);
}

static tensor_id embed(builder *b, tensor_id tokens, tensor_id table) {
    tensor_id x = embedding_apply(b->g, tokens, table);
    double factor = b->c->kind->scaled_embedding ? sqrt((double)b->c->channels) : b->c->embedding_factor;
    return drop(b, times(b, x, factor), b->c->dropout_embedding);
}

/* transformers' ...ForSequenceClassification. */
static void judge(const model *m, builder *b, tensor_id x, const model_run *run, model_ports *ports) {
    x = head_last_token(b->g, x, run);
    head_finish(m, b->g, linear(b, NO_LAYER, "score", x, m->head.outputs, false), run, ports);
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const decoder_config *c = m->config;
    if (!model_may_build(m, g, run)) return;
    builder b = { .c = c, .g = g, .mode = run->mode, .paged = run->paged };
    bool random = run->mode == MODEL_TRAIN &&
                  (c->dropout_embedding > 0 || c->dropout_attention > 0 || c->dropout_residual > 0);
    shape table = SHAPE(c->vocabulary, c->channels);
    tensor_id tokens = model_input(g, "tokens", SHAPE(run->batch, run->context), DTYPE_I32);
    if (random) b.key = model_input(g, "key", SHAPE(4), DTYPE_I32);
    b.rows = paged_open(g, run);
    if (run->mode == MODEL_ROWS) b.position = b.rows.position;
    b.segments = model_segments(m, g, run);
    tensor_id embedding = parameter(&b, NO_LAYER, c->kind->embedding, "weight", table);

    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    make_angles(&b, run->context);
    tensor_id x = embed(&b, tokens, embedding);
    const int64_t layers = model_layers(run, c->layers);
    for (int64_t layer = 0; layer < layers; layer++) x = block(&b, layer, x);
    g->site = SITE_NONE;
    bool rows = run->mode == MODEL_ROWS, tells = rows && run->paged->hidden;
    if (rows && !tells) x = paged_wanted(g, &b.rows, x);
    x = norm(&b, NO_LAYER, c->kind->last_norm, x);
    tensor_id hidden = tells ? model_shown(g, x) : 0;
    if (tells) x = paged_wanted(g, &b.rows, x);
    if (m->head.kind != HEAD_LANGUAGE) {
        judge(m, &b, x, run, ports);
        return;
    }
    tensor_id head = c->tied ? embedding : parameter(&b, NO_LAYER, c->kind->head, "weight", table);
    tensor_id bias = c->bias_head ? parameter(&b, NO_LAYER, c->kind->head, "bias", SHAPE(c->vocabulary)) : 0;
    tensor_id logits = matmul_apply(g, &(matmul_inputs){ .a = x, .b = head, .bias = bias, .tb = true });
    logits = times(&b, logits, c->logits_factor);
    if (c->cap_logits > 0) logits = softcap_apply(g, logits, (float)c->cap_logits);
    *ports = (model_ports){ .logits = logits, .hidden = hidden };
    if (model_mode_continues(run->mode)) return;
    tensor_id labels = model_input(g, "labels", SHAPE(run->batch, run->context), DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32);
    tensor_id beside = model_result(g, "loss"); /* what the loss of the text is added to */
    if (c->experts.balanced && run->mode == MODEL_TRAIN)
        beside = decoder_experts_balance(g, &c->experts,
                                         &(decoder_balance){ b.routed, c->layers, labels, scale }, beside);
    ports->loss = cross_entropy_apply(g, logits, labels, scale, beside);
}

/* Normal weights, biases 0, scales of norms 1. */
static void initial(const model *m, const char *parameter_name, const shape *s, model_initial *out) {
    const decoder_config *c = m->config;
    *out = (model_initial){ .stream = model_stream(parameter_name) };
    if (s->rank > 1)
        out->deviation = (float)c->deviation;
    else if (!text_ends_with(parameter_name, ".bias") && !c->kind->around_one)
        out->mean = 1;
}

/* Positions that any layer sees; 0: one sees all. */
static int64_t window_of(const decoder_config *c) {
    for (int64_t i = 0; i < c->layers; i++)
        if (decoder_sees_far(c, i)) return 0;
    return c->window;
}

/* Experts of all layers have one loss beside that of the text. */
static bool are_alike(const decoder_config *c) {
    bool alike = true;
    for (int64_t i = 0; i < c->layers; i++)
        alike &= !decoder_experts_at(&c->experts, i) && decoder_sees_far(c, i) == decoder_sees_far(c, 0) &&
                 decoder_turns(c, i) == decoder_turns(c, 0);
    return alike;
}

void decoder_model(const decoder_config *c, const char *name, model *m) {
    *m = (model){ .family = c->kind->type,
                  .config = c,
                  .context = c->context,
                  .vocabulary = c->vocabulary,
                  .layers = c->layers,
                  .alike = are_alike(c),
                  .window = window_of(c),
                  .packs = true,
                  .spelling = c->kind->spelling,
                  .untrained = c->untrained,
                  .build = build,
                  .initial = initial,
                  .fields = model_token_fields };
    m->spelling.gelu_whole = c->gelu_whole;
    snprintf(m->name, sizeof m->name, "%s", name);
}
