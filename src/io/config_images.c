/* config.json of models that see images: vit, clip and clip_vision_model, resnet, convnext. How many classes
 * there are is what id2label lists; transformers takes two where it is silent. ResNet and ConvNeXt take
 * images of any size, so where image_size is absent it is 224. */
#include <string.h>

#include "io/config_families.h"

/* A side, or [height, width]. */
static status read_sides(json_value root, const char *key, int64_t *height, int64_t *width) {
    json_value v;
    size_t count;
    if (!json_find(root, key, &v)) return STATUS_OK;
    if (!json_is_array(v)) {
        TRY(json_as_integer(v, 1, INT32_MAX, height));
        *width = *height;
        return STATUS_OK;
    }
    TRY(json_as_array(v, &count));
    if (count != 2) return json_wrong(v, "has %zu items; it must be one side or two", count);
    TRY(json_as_integer(json_item(v, 0), 1, INT32_MAX, height));
    return json_as_integer(json_item(v, 1), 1, INT32_MAX, width);
}

static status read_patch(json_value root, int64_t *patch) {
    int64_t width = *patch;
    json_value v;
    TRY(read_sides(root, "patch_size", patch, &width));
    if (*patch == width) return STATUS_OK;
    TRY(json_get(root, "patch_size", &v));
    return json_wrong(v, "is %lld x %lld; only square patches are supported", (long long)*patch,
                      (long long)width);
}

static status count_labels(json_value root, int64_t *labels) {
    json_value list, member;
    void *cursor = NULL;
    *labels = 2;
    if (json_find(root, "id2label", &list)) {
        TRY(json_as_object(list));
        for (*labels = 0; json_next(list, &cursor, &member);) ++*labels;
    }
    return json_optional_integer(root, "num_labels", 1, INT32_MAX, labels);
}

static status read_task(json_value root, images_task *t) {
    *t = (images_task){ .height = 224, .width = 224, .channels = 3 };
    TRY(read_sides(root, "image_size", &t->height, &t->width));
    TRY(json_optional_integer(root, "num_channels", 1, INT32_MAX, &t->channels));
    return count_labels(root, &t->labels);
}

static void put_task(json_writer *w, const images_task *t) {
    json_begin_array(w, "image_size");
    json_put_integer(w, NULL, t->height);
    json_put_integer(w, NULL, t->width);
    json_end_array(w);
    json_put_integer(w, "num_channels", t->channels);
    json_put_integer(w, "num_labels", t->labels);
}

static void put_architecture(json_writer *w, const char *architecture, const char *type) {
    json_begin_array(w, "architectures");
    json_put_string(w, NULL, architecture);
    json_end_array(w);
    json_put_string(w, "model_type", type);
}

/* ---- transformers ---- */

static const struct {
    const char *name;
    vit_activation value;
} activations[] = { { "gelu", VIT_GELU },
                    { "gelu_new", VIT_GELU_TANH },
                    { "gelu_pytorch_tanh", VIT_GELU_TANH },
                    { "quick_gelu", VIT_QUICK_GELU } };
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

static status read_activation(json_value root, vit_config *c) {
    const char *name = c->kind == VIT_CLIP ? "quick_gelu" : "gelu";
    json_value v;
    TRY(json_optional_string(root, "hidden_act", &name));
    for (int i = 0; i < ACTIVATIONS; i++) {
        c->activation = activations[i].value;
        if (strcmp(activations[i].name, name) == 0) return STATUS_OK;
    }
    TRY(json_get(root, "hidden_act", &v));
    return json_wrong(v, "is '%.40s'; supported are gelu, gelu_new, gelu_pytorch_tanh and quick_gelu", name);
}

static status read_encoder(json_value root, vit_config *c) {
    TRY(read_task(root, &c->task));
    TRY(json_optional_integer(root, "num_hidden_layers", 1, INT32_MAX, &c->layers));
    TRY(json_optional_integer(root, "num_attention_heads", 1, INT32_MAX, &c->heads));
    TRY(json_optional_integer(root, "hidden_size", 1, INT32_MAX, &c->channels));
    TRY(json_optional_integer(root, "intermediate_size", 1, INT32_MAX, &c->inner));
    TRY(read_patch(root, &c->patch));
    TRY(read_activation(root, c));
    return json_optional_number(root, "layer_norm_eps", 0, 1, &c->epsilon);
}

static status read_clip(json_value root, bool whole, vit_config *c) {
    json_value tower = root;
    int64_t projection = 512;
    *c = (vit_config){ .kind = VIT_CLIP, .layers = 12, .heads = 12, .channels = 768, .inner = 3072 };
    c->patch = 32, c->bias_qkv = true, c->epsilon = 1e-5;
    if (whole) TRY(json_get(root, "vision_config", &tower));
    TRY(json_as_object(tower));
    TRY(read_encoder(tower, c));
    TRY(model_config_dropout(tower, "attention_dropout", &c->dropout_attention));
    TRY(json_optional_integer(root, "projection_dim", 1, INT32_MAX, &projection));
    c->task.labels = projection;
    return STATUS_OK;
}

static status read_vit(json_value root, vit_config *c) {
    *c = (vit_config){ .layers = 12, .heads = 12, .channels = 768, .inner = 3072 };
    c->patch = 16, c->bias_qkv = true, c->epsilon = 1e-12;
    TRY(read_encoder(root, c));
    TRY(json_optional_bool(root, "qkv_bias", &c->bias_qkv));
    TRY(model_config_dropout(root, "hidden_dropout_prob", &c->dropout_hidden));
    return model_config_dropout(root, "attention_probs_dropout_prob", &c->dropout_attention);
}

static status read_dino(json_value root, vit_config *c) {
    *c = (vit_config){ .kind = VIT_DINO2, .layers = 12, .heads = 12, .channels = 768, .inner = 1 };
    c->patch = 14, c->ratio = 4, c->bias_qkv = true, c->masked = true, c->epsilon = 1e-6;
    TRY(read_encoder(root, c));
    TRY(json_optional_number(root, "mlp_ratio", 1e-3, 1e4, &c->ratio));
    c->task.layer_scale = 1;
    TRY(json_optional_number(root, "layerscale_value", 0, 1e6, &c->task.layer_scale));
    TRY(json_optional_bool(root, "use_swiglu_ffn", &c->gated));
    TRY(json_optional_bool(root, "use_mask_token", &c->masked));
    c->inner = vit_dino_inner(c->channels, c->ratio, c->gated);
    TRY(json_optional_bool(root, "qkv_bias", &c->bias_qkv));
    TRY(model_config_dropout(root, "hidden_dropout_prob", &c->dropout_hidden));
    return model_config_dropout(root, "attention_probs_dropout_prob", &c->dropout_attention);
}

/* transformers reads whole ratios alone. */
static void put_dino(json_writer *w, const vit_config *c) {
    int64_t whole = (int64_t)c->ratio;
    if ((double)whole == c->ratio)
        json_put_integer(w, "mlp_ratio", whole);
    else
        json_put_real(w, "mlp_ratio", c->ratio);
    json_put_real(w, "layerscale_value", c->task.layer_scale);
    json_put_bool(w, "use_swiglu_ffn", c->gated);
    json_put_bool(w, "use_mask_token", c->masked);
}

static void put_vit(json_writer *w, const vit_config *c) {
    static const char *const kinds[][2] = { [VIT_PLAIN] = { "ViTForImageClassification", "vit" },
                                            [VIT_CLIP] = { "CLIPVisionModelWithProjection",
                                                           "clip_vision_model" },
                                            [VIT_DINO2] = { "Dinov2ForImageClassification", "dinov2" } };
    const bool clip = c->kind == VIT_CLIP;
    put_architecture(w, kinds[c->kind][0], kinds[c->kind][1]);
    put_task(w, &c->task);
    if (clip) json_put_integer(w, "projection_dim", c->task.labels);
    json_put_integer(w, "num_hidden_layers", c->layers);
    json_put_integer(w, "num_attention_heads", c->heads);
    json_put_integer(w, "hidden_size", c->channels);
    if (c->kind == VIT_DINO2)
        put_dino(w, c);
    else
        json_put_integer(w, "intermediate_size", c->inner);
    json_put_integer(w, "patch_size", c->patch);
    for (int i = ACTIVATIONS - 1; i >= 0; i--)
        if (activations[i].value == c->activation) {
            json_put_string(w, "hidden_act", activations[i].name);
            break;
        }
    json_put_real(w, "layer_norm_eps", c->epsilon);
    json_put_real(w, clip ? "attention_dropout" : "attention_probs_dropout_prob", c->dropout_attention);
    if (clip) return;
    json_put_real(w, "hidden_dropout_prob", c->dropout_hidden);
    json_put_bool(w, "qkv_bias", c->bias_qkv);
}

/* ---- convolutions ---- */

/* hidden_sizes and depths, of the same length; without them the usual four stages. */
static status read_stages(json_value root, const int64_t usual[8], int64_t most, int64_t *stages,
                          int64_t *channels, int64_t *depths) {
    const char *const keys[] = { "hidden_sizes", "depths" };
    for (int k = 0; k < 2; k++) {
        int64_t *to = k ? depths : channels;
        json_value list;
        size_t count = 4;
        memcpy(to, usual + 4 * k, 4 * sizeof *to);
        if (json_find(root, keys[k], &list)) {
            TRY(json_as_array(list, &count));
            if (count < 1 || count > (size_t)most)
                return json_wrong(list, "has %zu items; there are 1 to %lld stages", count, (long long)most);
            for (size_t i = 0; i < count; i++) TRY(json_as_integer(json_item(list, i), 1, INT32_MAX, &to[i]));
        }
        if (k && (int64_t)count != *stages)
            return status_set(STATUS_INVALID, "%s: depths has %zu items, hidden_sizes %lld", root.file, count,
                              (long long)*stages);
        *stages = (int64_t)count;
    }
    return STATUS_OK;
}

static void put_list(json_writer *w, const char *key, const int64_t *list, int64_t count) {
    json_begin_array(w, key);
    for (int64_t i = 0; i < count; i++) json_put_integer(w, NULL, list[i]);
    json_end_array(w);
}

/* What else transformers could put there is another function, which no builder has. */
static status expect(json_value root, const char *key, const char *only) {
    const char *name = only;
    json_value v;
    TRY(json_optional_string(root, key, &name));
    if (strcmp(name, only) == 0) return STATUS_OK;
    TRY(json_get(root, key, &v));
    return json_wrong(v, "is '%.40s'; supported is %s", name, only);
}

static status read_resnet(json_value root, resnet_config *c) {
    static const int64_t usual[8] = { 256, 512, 1024, 2048, 3, 4, 6, 3 };
    const char *type = "bottleneck";
    json_value v;
    *c = (resnet_config){ .embedding = 64 };
    TRY(read_task(root, &c->task));
    TRY(json_optional_integer(root, "embedding_size", 1, INT32_MAX, &c->embedding));
    TRY(read_stages(root, usual, RESNET_MOST_STAGES, &c->stages, c->channels, c->depths));
    TRY(expect(root, "hidden_act", "relu"));
    TRY(json_optional_bool(root, "downsample_in_first_stage", &c->shrink_first));
    TRY(json_optional_bool(root, "downsample_in_bottleneck", &c->stride_first));
    TRY(json_optional_string(root, "layer_type", &type));
    c->bottleneck = strcmp(type, "bottleneck") == 0;
    if (c->bottleneck || strcmp(type, "basic") == 0) return STATUS_OK;
    TRY(json_get(root, "layer_type", &v));
    return json_wrong(v, "is '%.40s'; it must be basic or bottleneck", type);
}

static void put_resnet(json_writer *w, const resnet_config *c) {
    put_architecture(w, "ResNetForImageClassification", "resnet");
    put_task(w, &c->task);
    json_put_integer(w, "embedding_size", c->embedding);
    put_list(w, "hidden_sizes", c->channels, c->stages);
    put_list(w, "depths", c->depths, c->stages);
    json_put_string(w, "layer_type", c->bottleneck ? "bottleneck" : "basic");
    json_put_bool(w, "downsample_in_first_stage", c->shrink_first);
    json_put_bool(w, "downsample_in_bottleneck", c->stride_first);
}

static status read_convnext(json_value root, convnext_config *c) {
    static const int64_t usual[8] = { 96, 192, 384, 768, 3, 3, 9, 3 };
    *c = (convnext_config){ .patch = 4, .epsilon = 1e-12 };
    TRY(read_task(root, &c->task));
    TRY(read_patch(root, &c->patch));
    TRY(read_stages(root, usual, CONVNEXT_MOST_STAGES, &c->stages, c->channels, c->depths));
    TRY(expect(root, "hidden_act", "gelu"));
    TRY(json_optional_number(root, "layer_norm_eps", 0, 1, &c->epsilon));
    c->task.layer_scale = 1e-6;
    TRY(json_optional_number(root, "layer_scale_init_value", 0, 1e6, &c->task.layer_scale));
    c->scaled = c->task.layer_scale > 0;
    return STATUS_OK;
}

static void put_convnext(json_writer *w, const convnext_config *c) {
    put_architecture(w, "ConvNextForImageClassification", "convnext");
    put_task(w, &c->task);
    json_put_integer(w, "patch_size", c->patch);
    put_list(w, "hidden_sizes", c->channels, c->stages);
    put_list(w, "depths", c->depths, c->stages);
    json_put_integer(w, "num_stages", c->stages); /* transformers does not count them */
    json_put_real(w, "layer_norm_eps", c->epsilon);
    json_put_real(w, "layer_scale_init_value", c->task.layer_scale);
}

/* ---- any of them ---- */

bool config_images_find(const char *type, model_family *family) {
    static const struct {
        const char *type;
        model_family family;
    } types[] = { { "vit", FAMILY_VIT },       { "dinov2", FAMILY_VIT },
                  { "clip", FAMILY_VIT },      { "clip_vision_model", FAMILY_VIT },
                  { "resnet", FAMILY_RESNET }, { "convnext", FAMILY_CONVNEXT } };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0) return *family = types[i].family, true;
    return false;
}

static status read_any(json_value root, const char *type, model_config *c) {
    if (c->family == FAMILY_RESNET) return read_resnet(root, &c->resnet);
    if (c->family == FAMILY_CONVNEXT) return read_convnext(root, &c->convnext);
    if (strcmp(type, "dinov2") == 0) return read_dino(root, &c->vit);
    return strcmp(type, "vit") == 0 ? read_vit(root, &c->vit)
                                    : read_clip(root, strcmp(type, "clip") == 0, &c->vit);
}

status config_images_read(json_value root, const char *type, model_config *c) {
    TRY(read_any(root, type, c));
    c->head = (model_head){ HEAD_CLASSES, families_images(c)->labels };
    return STATUS_OK;
}

void config_images_put(json_writer *w, const model_config *c) {
    if (c->family == FAMILY_RESNET)
        put_resnet(w, &c->resnet);
    else if (c->family == FAMILY_CONVNEXT)
        put_convnext(w, &c->convnext);
    else
        put_vit(w, &c->vit);
}

bool config_images_knows(const char *key) {
    static const char *const keys[] = { "image_size",
                                        "num_channels",
                                        "num_labels",
                                        "patch_size",
                                        "num_hidden_layers",
                                        "num_attention_heads",
                                        "hidden_size",
                                        "intermediate_size",
                                        "hidden_act",
                                        "layer_norm_eps",
                                        "attention_dropout",
                                        "attention_probs_dropout_prob",
                                        "hidden_dropout_prob",
                                        "qkv_bias",
                                        "mlp_ratio",
                                        "use_swiglu_ffn",
                                        "use_mask_token",
                                        "layerscale_value",
                                        "apply_layernorm",
                                        "reshape_hidden_states",
                                        "projection_dim",
                                        "vision_config",
                                        "text_config",
                                        "embedding_size",
                                        "hidden_sizes",
                                        "depths",
                                        "num_stages",
                                        "layer_type",
                                        "downsample_in_first_stage",
                                        "downsample_in_bottleneck",
                                        "drop_path_rate",
                                        "layer_scale_init_value",
                                        "initializer_range",
                                        "initializer_factor",
                                        "logit_scale_init_value",
                                        "encoder_stride",
                                        "pooler_act",
                                        "pooler_output_size",
                                        "out_features",
                                        "out_indices",
                                        "stage_names" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}
