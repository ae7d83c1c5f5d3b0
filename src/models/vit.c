#include "models/vit.h"

#include <stdio.h>

#include "models/check.h"
#include "ops/add/add.h"
#include "ops/add_positions/add_positions.h"
#include "ops/attention/attention.h"
#include "ops/class_token/class_token.h"
#include "ops/column_scale/column_scale.h"
#include "ops/columns/columns.h"
#include "ops/dropout/dropout.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/join/join.h"
#include "ops/mean_space/mean_space.h"
#include "ops/quick_gelu/quick_gelu.h"
#include "ops/reshape/reshape.h"

status vit_check(const vit_config *c) {
    const model_range sizes[] = { { "num_hidden_layers", c->layers, 1, IMAGES_MOST_BLOCKS },
                                  { "num_attention_heads", c->heads, 1, 4096 },
                                  { "hidden_size", c->channels, 1, 1 << 20 },
                                  { "intermediate_size", c->inner, 1, 1 << 22 },
                                  { "patch_size", c->patch, 1, c->task.height },
                                  { "patch_size", c->patch, 1, c->task.width } };
    TRY(images_check(&c->task));
    TRY(MODEL_CHECK_RANGES(sizes));
    TRY(model_check_heads("num_attention_heads", c->heads, "hidden_size", c->channels));
    TRY(model_check_dropout((double[]){ c->dropout_hidden, c->dropout_attention }, 2));
    return model_check_epsilon("layer_norm_eps", c->epsilon);
}

int64_t vit_dino_inner(int64_t channels, double ratio, bool gated) {
    int64_t inner = (int64_t)((double)channels * ratio);
    return gated ? ((int64_t)((double)(inner * 2) / 3) + 7) / 8 * 8 : inner;
}

/* ---- names: what differs between them is mostly how weights are called ---- */

typedef struct {
    const char *family, *projection, *token, *positions, *layers;
    const char *first_norm, *second_norm, *o, *q, *k, *v, *last_norm, *head;
    const char *first_scale, *second_scale; /* NULL: there are none */
} vit_names;

static const vit_names vit = { .family = "vit",
                               .projection = "vit.embeddings.patch_embeddings.projection",
                               .token = "vit.embeddings.cls_token",
                               .positions = "vit.embeddings.position_embeddings",
                               .layers = "vit.layers",
                               .first_norm = "layernorm_before",
                               .second_norm = "layernorm_after",
                               .q = "attention.q_proj",
                               .k = "attention.k_proj",
                               .v = "attention.v_proj",
                               .o = "attention.o_proj",
                               .last_norm = "vit.layernorm",
                               .head = "classifier" };
static const vit_names clip = { .family = "clip_vision_model",
                                .projection = "vision_model.embeddings.patch_embedding",
                                .token = "vision_model.embeddings.class_embedding",
                                .positions = "vision_model.embeddings.position_embedding.weight",
                                .layers = "vision_model.encoder.layers",
                                .first_norm = "layer_norm1",
                                .second_norm = "layer_norm2",
                                .q = "self_attn.q_proj",
                                .k = "self_attn.k_proj",
                                .v = "self_attn.v_proj",
                                .o = "self_attn.out_proj",
                                .last_norm = "vision_model.post_layernorm",
                                .head = "visual_projection" };

static const vit_names dino = { .family = "dinov2",
                                .projection = "dinov2.embeddings.patch_embeddings.projection",
                                .token = "dinov2.embeddings.cls_token",
                                .positions = "dinov2.embeddings.position_embeddings",
                                .layers = "dinov2.encoder.layer",
                                .first_norm = "norm1",
                                .second_norm = "norm2",
                                .q = "attention.q_proj",
                                .k = "attention.k_proj",
                                .v = "attention.v_proj",
                                .o = "attention.o_proj",
                                .first_scale = "layer_scale1.lambda1",
                                .second_scale = "layer_scale2.lambda1",
                                .last_norm = "dinov2.layernorm",
                                .head = "classifier" };
static const vit_names *const names_of[] = { [VIT_PLAIN] = &vit, [VIT_CLIP] = &clip, [VIT_DINO2] = &dino };

/* ---- the graph ---- */

typedef struct {
    const vit_config *c;
    const vit_names *names;
    graph *g;
    tensor_id key; /* 0: nothing is random */
    int32_t stream;
    char name[160]; /* of the weights asked for last */
} builder;

static const char *named(builder *b, int64_t layer, const char *module) {
    snprintf(b->name, sizeof b->name, "%s.%lld.%s", b->names->layers, (long long)layer, module);
    return b->name;
}

static tensor_id drop(builder *b, tensor_id x) {
    int32_t stream = b->stream++;
    return b->key && b->c->dropout_hidden > 0
               ? dropout_apply(b->g, x, b->key, (float)b->c->dropout_hidden, stream)
               : x;
}

/* Files of ViT hold these two for a batch of one, CLIP's do not. */
static tensor_id token(builder *b) {
    int64_t n = b->c->channels;
    if (b->c->kind == VIT_CLIP) return model_parameter(b->g, b->names->token, SHAPE(n), 0);
    return reshape_apply(b->g, model_parameter(b->g, b->names->token, SHAPE(1, 1, n), 0), SHAPE(n));
}

static tensor_id positions(builder *b, int64_t rows) {
    int64_t n = b->c->channels;
    if (b->c->kind == VIT_CLIP) return images_parameter(b->g, SHAPE(rows, n), "%s", b->names->positions);
    return reshape_apply(b->g, images_parameter(b->g, SHAPE(1, rows, n), "%s", b->names->positions),
                         SHAPE(rows, n));
}

/* (B,H,W,C) -> (B,T,C): a patch is a kernel's window, and those of an image follow each other. */
static tensor_id embed(builder *b, tensor_id images) {
    const vit_config *c = b->c;
    int64_t rows = (c->task.height / c->patch) * (c->task.width / c->patch);
    tensor_id x = images_convolve(b->g, images,
                                  &(images_convolution){ .name = b->names->projection,
                                                         .out = c->channels,
                                                         .size = c->patch,
                                                         .stride = c->patch,
                                                         .bias = c->kind != VIT_CLIP });
    x = reshape_apply(b->g, x, SHAPE(graph_shape(b->g, images)->dim[0], rows, c->channels));
    x = class_token_apply(b->g, x, token(b));
    return drop(b, add_positions_apply(b->g, x, positions(b, rows + 1), 0));
}

static tensor_id attend(builder *b, int64_t layer, tensor_id x) {
    const vit_config *c = b->c;
    bool random = b->key && c->dropout_attention > 0;
    attention_attributes a = { .heads = (int32_t)c->heads,
                               .dropout = random ? (float)c->dropout_attention : 0,
                               .stream = b->stream++ };
    tensor_id q = images_linear(b->g, x, named(b, layer, b->names->q), c->channels, c->bias_qkv);
    tensor_id k = images_linear(b->g, x, named(b, layer, b->names->k), c->channels, c->bias_qkv);
    tensor_id v = images_linear(b->g, x, named(b, layer, b->names->v), c->channels, c->bias_qkv);
    tensor_id y =
        attention_apply(b->g, &(attention_inputs){ .q = q, .k = k, .v = v, .key = random ? b->key : 0 }, &a);
    return images_linear(b->g, y, named(b, layer, b->names->o), c->channels, true);
}

static tensor_id activate(const builder *b, tensor_id x) {
    if (b->c->activation == VIT_QUICK_GELU) return quick_gelu_apply(b->g, x);
    return gelu_apply(b->g, x, b->c->activation == VIT_GELU_TANH);
}

static tensor_id feed_forward(builder *b, int64_t layer, tensor_id x) {
    const vit_config *c = b->c;
    if (!c->gated) {
        x = activate(b, images_linear(b->g, x, named(b, layer, "mlp.fc1"), c->inner, true));
        return images_linear(b->g, x, named(b, layer, "mlp.fc2"), c->channels, true);
    }
    tensor_id gate = images_linear(b->g, x, named(b, layer, "mlp.gate_proj"), c->inner, true),
              up = images_linear(b->g, x, named(b, layer, "mlp.up_proj"), c->inner, true);
    x = gated_apply(b->g, gate, up, GATED_SILU);
    return images_linear(b->g, x, named(b, layer, "mlp.down_proj"), c->channels, true);
}

static tensor_id scale(builder *b, int64_t layer, tensor_id x, const char *name) {
    if (!name) return x;
    return column_scale_apply(b->g, x,
                              images_parameter(b->g, SHAPE(b->c->channels), "%s", named(b, layer, name)));
}

static tensor_id block(builder *b, int64_t layer, tensor_id x) {
    const vit_config *c = b->c;
    b->g->site = (int32_t)layer;
    tensor_id h = images_layernorm(b->g, x, named(b, layer, b->names->first_norm), c->epsilon);
    h = scale(b, layer, attend(b, layer, h), b->names->first_scale);
    x = add_apply(b->g, x, drop(b, h));
    h = images_layernorm(b->g, x, named(b, layer, b->names->second_norm), c->epsilon);
    h = scale(b, layer, feed_forward(b, layer, h), b->names->second_scale);
    return add_apply(b->g, x, drop(b, h));
}

/* (B,T,C) -> (B,C) */
static tensor_id first_token(const builder *b, tensor_id x) {
    shape s = *graph_shape(b->g, x);
    x = reshape_apply(b->g, x, SHAPE(s.dim[0], s.dim[1] * s.dim[2]));
    return columns_apply(b->g, x, &(columns_attributes){ .width = (int32_t)s.dim[2], .count = 1 });
}

/* The class token; of DINOv2 the mean of the patches beside it. */
static tensor_id seen_by_head(const builder *b, tensor_id x) {
    shape s = *graph_shape(b->g, x);
    tensor_id first = first_token(b, x);
    if (b->c->kind != VIT_DINO2) return first;
    columns_attributes others = { .start = (int32_t)s.dim[2],
                                  .width = (int32_t)((s.dim[1] - 1) * s.dim[2]),
                                  .count = 1 };
    x = columns_apply(b->g, reshape_apply(b->g, x, SHAPE(s.dim[0], s.dim[1] * s.dim[2])), &others);
    x = reshape_apply(b->g, x, SHAPE(s.dim[0], s.dim[1] - 1, 1, s.dim[2]));
    return join_apply(b->g, (tensor_id[]){ first, mean_space_apply(b->g, x) }, 2);
}

/* What nothing reads has no gradient, and is not trained. */
static void add_mask_token(const builder *b) {
    if (!b->c->masked) return;
    graph_add_source(b->g, &(graph_source){ .name = "dinov2.embeddings.mask_token",
                                            .shape = SHAPE(1, b->c->channels),
                                            .dtype = DTYPE_F32,
                                            .role = ROLE_PARAMETER });
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const vit_config *c = m->config;
    builder b = { .c = c, .names = names_of[c->kind], .g = g };
    const bool is_clip = c->kind == VIT_CLIP;
    tensor_id images = images_input(g, &c->task, run->batch);
    if (run->mode == MODEL_TRAIN && (c->dropout_hidden > 0 || c->dropout_attention > 0))
        b.key = model_input(g, "key", SHAPE(4), DTYPE_I32);
    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    tensor_id x = embed(&b, images);
    add_mask_token(&b);
    if (is_clip) x = images_layernorm(g, x, "vision_model.pre_layrnorm", c->epsilon);
    for (int64_t layer = 0; layer < c->layers; layer++) x = block(&b, layer, x);
    g->site = SITE_NONE;
    if (is_clip)
        x = images_layernorm(g, first_token(&b, x), b.names->last_norm, c->epsilon);
    else
        x = seen_by_head(&b, images_layernorm(g, x, b.names->last_norm, c->epsilon));
    images_finish(g, images_linear(g, x, b.names->head, c->task.labels, !is_clip), run, ports);
}

void vit_model(const vit_config *c, const char *name, model *m) {
    images_model(m, &c->task, names_of[c->kind]->family, name);
    m->layers = c->layers;
    m->build = build;
    m->spelling.narrow_softmax = c->kind == VIT_DINO2;
}
