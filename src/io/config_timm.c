/* config.json as the timm library has it: the name of an architecture, what is other in it (model_args), the
 * number of classes and their names, and how pictures are prepared (pretrained_cfg). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/config_families.h"

/* ---- architectures ---- */

typedef struct {
    const char *name;
    int64_t sizes[8]; /* vit: channels, heads, layers; of stages: channels, then depths */
    bool bottleneck;
} architecture;

static const architecture vits[] = { { "vit_tiny_patch", { 192, 3, 12 }, false },
                                     { "vit_small_patch", { 384, 6, 12 }, false },
                                     { "vit_base_patch", { 768, 12, 12 }, false },
                                     { "vit_large_patch", { 1024, 16, 24 }, false } };
static const architecture resnets[] = { { "resnet18", { 64, 128, 256, 512, 2, 2, 2, 2 }, false },
                                        { "resnet34", { 64, 128, 256, 512, 3, 4, 6, 3 }, false },
                                        { "resnet50", { 256, 512, 1024, 2048, 3, 4, 6, 3 }, true },
                                        { "resnet101", { 256, 512, 1024, 2048, 3, 4, 23, 3 }, true },
                                        { "resnet152", { 256, 512, 1024, 2048, 3, 8, 36, 3 }, true } };
static const architecture convnexts[] = { { "convnext_tiny", { 96, 192, 384, 768, 3, 3, 9, 3 }, false },
                                          { "convnext_small", { 96, 192, 384, 768, 3, 3, 27, 3 }, false },
                                          { "convnext_base", { 128, 256, 512, 1024, 3, 3, 27, 3 }, false },
                                          { "convnext_large", { 192, 384, 768, 1536, 3, 3, 27, 3 }, false } };
#define FIND(list, name, whole) find(list, sizeof(list) / sizeof *(list), name, whole)

static const architecture *find(const architecture *list, size_t count, const char *name, bool whole) {
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(list[i].name);
        if (strncmp(list[i].name, name, n) == 0 && (!whole || !name[n])) return &list[i];
    }
    return NULL;
}

static status unknown(json_value root, model_config_use use, const char *name) {
    char remedy[CONFIG_REMEDY_BYTES];
    json_value v;
    TRY(json_get(root, "architecture", &v));
    model_config_remedy(use, "timm", root.file, remedy);
    return json_wrong(v,
                      "is '%.40s'; of timm's architectures there are vit_{tiny,small,base,large}_patchP_S, "
                      "resnet{18,34,50,101,152} and convnext_{tiny,small,base,large}%s",
                      name, remedy);
}

/* ---- reading ---- */

/* [channels, height, width] of what it was trained on, or of what is said in its place. */
static status read_input(json_value root, images_task *t) {
    json_value about, size;
    size_t count;
    if (!json_find(root, "pretrained_cfg", &about) || json_as_object(about) != STATUS_OK) return STATUS_OK;
    if (!json_find(about, "input_size", &size)) return STATUS_OK;
    TRY(json_as_array(size, &count));
    if (count != 3) return json_wrong(size, "has %zu items; it must be channels, height and width", count);
    TRY(json_as_integer(json_item(size, 0), 1, INT32_MAX, &t->channels));
    TRY(json_as_integer(json_item(size, 1), 1, INT32_MAX, &t->height));
    return json_as_integer(json_item(size, 2), 1, INT32_MAX, &t->width);
}

static status read_list(json_value arguments, const char *key, int64_t *to, int64_t *count) {
    json_value list;
    size_t n;
    if (!json_find(arguments, key, &list)) return STATUS_OK;
    TRY(json_as_array(list, &n));
    if (n != 4) return json_wrong(list, "has %zu items; there are four stages", n);
    for (size_t i = 0; i < n; i++) TRY(json_as_integer(json_item(list, i), 1, INT32_MAX, &to[i]));
    *count = (int64_t)n;
    return STATUS_OK;
}

/* Arguments of the model's function that no builder knows would make another model. */
static status check_arguments(json_value arguments, const char *const *known) {
    void *cursor = NULL;
    json_value member;
    if (!arguments.object) return STATUS_OK;
    while (json_next(arguments, &cursor, &member)) {
        bool met = false;
        for (int i = 0; known[i]; i++) met = met || strcmp(member.key, known[i]) == 0;
        if (!met) return json_wrong(member, "is an argument of timm's that is not known here");
    }
    return STATUS_OK;
}

/* "16_224", and perhaps a tag of weights behind a dot. */
static bool read_patches(const char *words, int64_t *patch, int64_t *side) {
    char *end;
    *patch = strtoll(words, &end, 10);
    if (*words < '1' || *words > '9' || *end != '_') return false;
    words = end + 1;
    *side = strtoll(words, &end, 10);
    return *words >= '1' && *words <= '9' && (!*end || *end == '.') && *side >= *patch;
}

static bool is_known(const char *name) {
    const architecture *vit = FIND(vits, name, false);
    int64_t patch, side;
    return FIND(resnets, name, true) || FIND(convnexts, name, true) ||
           (vit && read_patches(name + strlen(vit->name), &patch, &side));
}

static status read_vit(json_value root, json_value arguments, const char *name, vit_config *c) {
    static const char *const known[] = { "img_size",  "patch_size", "embed_dim", "depth",
                                         "num_heads", "mlp_ratio",  NULL };
    const architecture *a = FIND(vits, name, false);
    int64_t patch = 0, side = 0;
    double ratio = 4;
    read_patches(name + strlen(a->name), &patch, &side);
    *c = (vit_config){ .channels = a->sizes[0], .heads = a->sizes[1], .layers = a->sizes[2], .patch = patch };
    c->task = (images_task){ .height = side, .width = side, .channels = 3 };
    c->bias_qkv = true, c->epsilon = 1e-6, c->activation = VIT_GELU;
    TRY(read_input(root, &c->task));
    TRY(check_arguments(arguments, known));
    TRY(json_optional_integer(arguments, "img_size", 1, INT32_MAX, &c->task.height));
    if (json_has(arguments, "img_size")) c->task.width = c->task.height;
    TRY(json_optional_integer(arguments, "patch_size", 1, INT32_MAX, &c->patch));
    TRY(json_optional_integer(arguments, "embed_dim", 1, INT32_MAX, &c->channels));
    TRY(json_optional_integer(arguments, "depth", 1, INT32_MAX, &c->layers));
    TRY(json_optional_integer(arguments, "num_heads", 1, INT32_MAX, &c->heads));
    TRY(json_optional_number(arguments, "mlp_ratio", 0, 1000, &ratio));
    c->inner = (int64_t)((double)c->channels * ratio);
    return STATUS_OK;
}

static status read_resnet(json_value root, json_value arguments, const architecture *a, resnet_config *c) {
    static const char *const known[] = { "layers", NULL };
    *c = (resnet_config){ .embedding = 64, .stages = 4, .bottleneck = a->bottleneck };
    c->task = (images_task){ .height = 224, .width = 224, .channels = 3 };
    memcpy(c->channels, a->sizes, 4 * sizeof *a->sizes);
    memcpy(c->depths, a->sizes + 4, 4 * sizeof *a->sizes);
    TRY(read_input(root, &c->task));
    TRY(check_arguments(arguments, known));
    return read_list(arguments, "layers", c->depths, &c->stages);
}

static status read_convnext(json_value root, json_value arguments, const architecture *a,
                            convnext_config *c) {
    static const char *const known[] = { "depths", "dims", NULL };
    *c = (convnext_config){ .patch = 4, .stages = 4, .scaled = true, .epsilon = 1e-6 };
    c->task = (images_task){ .height = 224, .width = 224, .channels = 3 };
    memcpy(c->channels, a->sizes, 4 * sizeof *a->sizes);
    memcpy(c->depths, a->sizes + 4, 4 * sizeof *a->sizes);
    TRY(read_input(root, &c->task));
    c->task.layer_scale = 1e-6;
    TRY(check_arguments(arguments, known));
    TRY(read_list(arguments, "dims", c->channels, &c->stages));
    return read_list(arguments, "depths", c->depths, &c->stages);
}

static status read_sizes(json_value root, json_value arguments, const char *name, model_config *c) {
    const architecture *a = FIND(resnets, name, true), *next = FIND(convnexts, name, true);
    if (a) {
        c->family = FAMILY_RESNET;
        return read_resnet(root, arguments, a, &c->resnet);
    }
    if (next) {
        c->family = FAMILY_CONVNEXT;
        return read_convnext(root, arguments, next, &c->convnext);
    }
    c->family = FAMILY_VIT;
    return read_vit(root, arguments, name, &c->vit);
}

static status read_three(json_value about, const char *key, double low, double to[3]) {
    json_value list;
    size_t count;
    if (!json_find(about, key, &list)) return STATUS_OK;
    TRY(json_as_array(list, &count));
    if (count != 3) return json_wrong(list, "has %zu numbers, and pictures 3 colours", count);
    for (size_t i = 0; i < count; i++) TRY(json_as_number(json_item(list, i), low, 1e6, &to[i]));
    return STATUS_OK;
}

/* As timm has it where nothing is said: ImageNet's. */
static status read_preparation(json_value root, families_timm *t) {
    static const double mean[] = { 0.485, 0.456, 0.406 }, deviation[] = { 0.229, 0.224, 0.225 };
    const char *interpolation = "bicubic";
    json_value about;
    memcpy(t->mean, mean, sizeof mean);
    memcpy(t->deviation, deviation, sizeof deviation);
    t->crop = 0.875;
    if (json_find(root, "pretrained_cfg", &about)) {
        TRY(json_as_object(about));
        TRY(read_three(about, "mean", -1e6, t->mean));
        TRY(read_three(about, "std", 1e-9, t->deviation));
        TRY(json_optional_number(about, "crop_pct", 0.01, 1, &t->crop));
        TRY(json_optional_string(about, "interpolation", &interpolation));
    }
    snprintf(t->interpolation, sizeof t->interpolation, "%s", interpolation);
    return STATUS_OK;
}

bool config_timm_is(json_value root) {
    return json_has(root, "architecture") && !json_has(root, "model_type");
}

status config_timm_read(json_value root, model_config_use use, model_config *c) {
    const char *name;
    json_value arguments = { 0 };
    int64_t labels = 1000;
    TRY(json_get_string(root, "architecture", &name));
    if (!is_known(name)) return unknown(root, use, name);
    if (!json_find(root, "model_args", &arguments)) arguments = (json_value){ 0 };
    TRY(read_sizes(root, arguments, name, c));
    TRY(json_optional_integer(root, "num_classes", 1, INT32_MAX, &labels));
    families_set_labels(c, labels);
    c->head = (model_head){ HEAD_CLASSES, labels };
    snprintf(c->timm.architecture, sizeof c->timm.architecture, "%s", name);
    return read_preparation(root, &c->timm);
}

/* ---- writing ---- */

static void put_list(json_writer *w, const char *key, const int64_t *list, int64_t count) {
    json_begin_array(w, key);
    for (int64_t i = 0; i < count; i++) json_put_integer(w, NULL, list[i]);
    json_end_array(w);
}

static void put_arguments(json_writer *w, const model_config *c) {
    json_begin_object(w, "model_args");
    if (c->family == FAMILY_RESNET) put_list(w, "layers", c->resnet.depths, c->resnet.stages);
    if (c->family == FAMILY_CONVNEXT) {
        put_list(w, "depths", c->convnext.depths, c->convnext.stages);
        put_list(w, "dims", c->convnext.channels, c->convnext.stages);
    }
    if (c->family == FAMILY_VIT) {
        const vit_config *v = &c->vit;
        json_put_integer(w, "img_size", v->task.height);
        json_put_integer(w, "patch_size", v->patch);
        json_put_integer(w, "embed_dim", v->channels);
        json_put_integer(w, "depth", v->layers);
        json_put_integer(w, "num_heads", v->heads);
        json_put_real(w, "mlp_ratio", (double)v->inner / (double)v->channels);
    }
    json_end_object(w);
}

static void put_three(json_writer *w, const char *key, const double *list) {
    json_begin_array(w, key);
    for (int i = 0; i < 3; i++) json_put_real(w, NULL, list[i]);
    json_end_array(w);
}

static void put_preparation(json_writer *w, const model_config *c) {
    const images_task *t = families_images(c);
    const int64_t size[] = { t->channels, t->height, t->width };
    json_begin_object(w, "pretrained_cfg");
    put_list(w, "input_size", size, 3);
    json_put_bool(w, "fixed_input_size", c->family == FAMILY_VIT);
    json_put_string(w, "interpolation", c->timm.interpolation);
    json_put_real(w, "crop_pct", c->timm.crop);
    put_three(w, "mean", c->timm.mean);
    put_three(w, "std", c->timm.deviation);
    json_put_integer(w, "num_classes", c->head.outputs);
    json_end_object(w);
}

void config_timm_put(json_writer *w, const model_config *c) {
    json_put_string(w, "architecture", c->timm.architecture);
    json_put_integer(w, "num_classes", c->head.outputs);
    put_arguments(w, c);
    if (c->label_names) {
        json_begin_array(w, "label_names");
        for (int64_t i = 0; i < c->head.outputs; i++) json_put_string(w, NULL, c->label_names[i]);
        json_end_array(w);
    }
    put_preparation(w, c);
}

bool config_timm_knows(const char *key) {
    static const char *const keys[] = {
        "architecture", "num_classes",    "num_features", "global_pool",
        "model_args",   "pretrained_cfg", "label_names",  "label_descriptions"
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

status config_timm_names(json_value root, const model_config *c, label_names *names) {
    json_value list = { 0 };
    size_t count = 0;
    bool named = json_find(root, "label_names", &list) && json_as_array(list, &count) == STATUS_OK &&
                 (int64_t)count == c->head.outputs;
    for (int64_t i = 0; i < c->head.outputs; i++) {
        char made[48];
        const char *name = made;
        snprintf(made, sizeof made, "LABEL_%lld", (long long)i);
        if (named) TRY(json_as_string(json_item(list, (size_t)i), &name));
        TRY(label_names_add(names, name, strlen(name), NULL));
    }
    return STATUS_OK;
}
