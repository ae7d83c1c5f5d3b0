/* From the models' config.json on huggingface.co; heads for the 1,000 classes of ImageNet. */
#include <string.h>

#include "models/published.h"

static const struct {
    const char *name;
    int64_t layers, heads, channels, inner, patch, labels;
    bool clip;
} transformers[] = { { "vit-base", 12, 12, 768, 3072, 16, 1000, false },
                     { "vit-large", 24, 16, 1024, 4096, 16, 1000, false },
                     { "vit-huge", 32, 16, 1280, 5120, 14, 1000, false },
                     { "clip-vit-b-32", 12, 12, 768, 3072, 32, 512, true },
                     { "clip-vit-l-14", 24, 16, 1024, 4096, 14, 768, true } };

static const struct {
    const char *name;
    bool next, bottleneck;
    int64_t depths[4], channels[4];
} convolutions[] = { { "resnet-18", false, false, { 2, 2, 2, 2 }, { 64, 128, 256, 512 } },
                     { "resnet-34", false, false, { 3, 4, 6, 3 }, { 64, 128, 256, 512 } },
                     { "resnet-50", false, true, { 3, 4, 6, 3 }, { 256, 512, 1024, 2048 } },
                     { "resnet-101", false, true, { 3, 4, 23, 3 }, { 256, 512, 1024, 2048 } },
                     { "resnet-152", false, true, { 3, 8, 36, 3 }, { 256, 512, 1024, 2048 } },
                     { "convnext-tiny", true, false, { 3, 3, 9, 3 }, { 96, 192, 384, 768 } },
                     { "convnext-small", true, false, { 3, 3, 27, 3 }, { 96, 192, 384, 768 } },
                     { "convnext-base", true, false, { 3, 3, 27, 3 }, { 128, 256, 512, 1024 } },
                     { "convnext-large", true, false, { 3, 3, 27, 3 }, { 192, 384, 768, 1536 } } };

static images_task task(int64_t labels) {
    return (images_task){ .height = 224, .width = 224, .channels = 3, .labels = labels };
}

static const char *find_transformer(const char *name, model_config *c) {
    for (size_t i = 0; i < sizeof transformers / sizeof *transformers; i++) {
        if (strcmp(transformers[i].name, name) != 0) continue;
        *c = (model_config){ .family = FAMILY_VIT,
                             .vit = { .task = task(transformers[i].labels),
                                      .clip = transformers[i].clip,
                                      .layers = transformers[i].layers,
                                      .heads = transformers[i].heads,
                                      .channels = transformers[i].channels,
                                      .inner = transformers[i].inner,
                                      .patch = transformers[i].patch,
                                      .activation = transformers[i].clip ? VIT_QUICK_GELU : VIT_GELU,
                                      .bias_qkv = true,
                                      .epsilon = 1e-12 } };
        return transformers[i].name;
    }
    return NULL;
}

static const char *find_convolutions(const char *name, model_config *c) {
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
        if (strcmp(convolutions[i].name, name) != 0) continue;
        bool next = convolutions[i].next;
        *c = (model_config){ .family = next ? FAMILY_CONVNEXT : FAMILY_RESNET };
        if (next)
            c->convnext = (convnext_config){
                .task = task(1000), .patch = 4, .stages = 4, .scaled = true, .epsilon = 1e-12
            };
        else
            c->resnet = (resnet_config){
                .task = task(1000), .embedding = 64, .stages = 4, .bottleneck = convolutions[i].bottleneck
            };
        memcpy(next ? c->convnext.depths : c->resnet.depths, convolutions[i].depths,
               sizeof convolutions[i].depths);
        memcpy(next ? c->convnext.channels : c->resnet.channels, convolutions[i].channels,
               sizeof convolutions[i].channels);
        return convolutions[i].name;
    }
    return NULL;
}

bool published_images_find(const char *text, model_config *c, const char **name) {
    const char *found = find_transformer(text, c);
    if (!found) found = find_convolutions(text, c);
    if (found) *name = found;
    return found != NULL;
}
