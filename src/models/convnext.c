#include "models/convnext.h"

#include <stdio.h>

#include "models/check.h"
#include "ops/add/add.h"
#include "ops/column_scale/column_scale.h"
#include "ops/gelu/gelu.h"
#include "ops/mean_space/mean_space.h"

static const double EPSILON = 1e-6; /* of all norms but the last */

status convnext_check(const convnext_config *c) {
    TRY(images_check(&c->task));
    int64_t side = c->task.height < c->task.width ? c->task.height : c->task.width;
    TRY(model_check_ranges(&(model_range){ "patch_size", c->patch, 1, side }, 1));
    TRY(images_check_stages(c->stages, CONVNEXT_MOST_STAGES, c->channels, c->depths));
    return model_check_epsilon("layer_norm_eps", c->epsilon);
}

enum { NAME_BYTES = 160 };

static const char *named(char name[NAME_BYTES], const char *prefix, const char *module) {
    snprintf(name, NAME_BYTES, "%s%s", prefix, module);
    return name;
}

static tensor_id block(graph *g, const convnext_config *c, const char *prefix, tensor_id x) {
    int64_t channels = shape_last(graph_shape(g, x));
    char name[NAME_BYTES];
    tensor_id y = images_convolve(g, x,
                                  &(images_convolution){ .name = named(name, prefix, "dwconv"),
                                                         .out = channels,
                                                         .size = 7,
                                                         .stride = 1,
                                                         .padding = 3,
                                                         .groups = channels,
                                                         .bias = true });
    y = images_layernorm(g, y, named(name, prefix, "layernorm"), EPSILON);
    y = gelu_apply(g, images_linear(g, y, named(name, prefix, "pwconv1"), 4 * channels, true), false);
    y = images_linear(g, y, named(name, prefix, "pwconv2"), channels, true);
    if (c->scaled)
        y = column_scale_apply(
            g, y, images_parameter(g, SHAPE(channels), "%s", named(name, prefix, "layer_scale_parameter")));
    return add_apply(g, x, y);
}

/* A norm, and each square of four pixels becomes one. */
static tensor_id halve(graph *g, const char *prefix, int64_t out, tensor_id x) {
    char name[NAME_BYTES];
    x = images_layernorm(g, x, named(name, prefix, "downsampling_layer.0"), EPSILON);
    return images_convolve(g, x,
                           &(images_convolution){ .name = named(name, prefix, "downsampling_layer.1"),
                                                  .out = out,
                                                  .size = 2,
                                                  .stride = 2,
                                                  .bias = true });
}

static tensor_id stem(graph *g, const convnext_config *c, tensor_id images) {
    tensor_id x = images_convolve(g, images,
                                  &(images_convolution){ .name = "convnext.embeddings.patch_embeddings",
                                                         .out = c->channels[0],
                                                         .size = c->patch,
                                                         .stride = c->patch,
                                                         .bias = true });
    return images_layernorm(g, x, "convnext.embeddings.layernorm", EPSILON);
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const convnext_config *c = m->config;
    char prefix[NAME_BYTES / 2];
    int32_t site = 0;
    tensor_id x = images_input(g, &c->task, run->batch);
    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    x = stem(g, c, x);
    for (int64_t s = 0; s < c->stages; s++) {
        snprintf(prefix, sizeof prefix, "convnext.encoder.stages.%lld.", (long long)s);
        g->site = site;
        if (s > 0) x = halve(g, prefix, c->channels[s], x);
        for (int64_t d = 0; d < c->depths[s]; d++) {
            snprintf(prefix, sizeof prefix, "convnext.encoder.stages.%lld.layers.%lld.", (long long)s,
                     (long long)d);
            g->site = site++;
            x = block(g, c, prefix, x);
        }
    }
    g->site = SITE_NONE;
    x = images_layernorm(g, mean_space_apply(g, x), "convnext.layernorm", c->epsilon);
    images_finish(g, images_linear(g, x, "classifier", c->task.labels, true), run, ports);
}

void convnext_model(const convnext_config *c, const char *name, model *m) {
    images_model(m, &c->task, "convnext", name);
    for (int64_t s = 0; s < c->stages; s++) m->layers += c->depths[s];
    m->build = build;
}
