#include "models/resnet.h"

#include <stdio.h>

#include "models/check.h"
#include "ops/add/add.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/max_pool/max_pool.h"
#include "ops/mean_space/mean_space.h"
#include "ops/relu/relu.h"

static const float EPSILON = 1e-5f, MOMENTUM = 0.1f; /* torch.nn.BatchNorm2d's */

status resnet_check(const resnet_config *c) {
    TRY(images_check(&c->task));
    TRY(model_check_ranges(&(model_range){ "embedding_size", c->embedding, 1, IMAGES_MOST_CHANNELS }, 1));
    TRY(images_check_stages(c->stages, RESNET_MOST_STAGES, c->channels, c->depths));
    for (int64_t i = 0; i < c->stages && c->bottleneck; i++)
        if (c->channels[i] % 4)
            return status_set(STATUS_INVALID, "hidden_sizes has %lld; bottlenecks need multiples of 4",
                              (long long)c->channels[i]);
    return STATUS_OK;
}

typedef struct {
    graph *g;
    const resnet_config *c;
    model_mode mode;
    char prefix[96]; /* of the block's weights */
} builder;

static tensor_id state(const builder *b, const char *name, const char *what, int64_t channels) {
    char full[192];
    snprintf(full, sizeof full, "%s.%s", name, what);
    return graph_add_source(b->g, &(graph_source){ .name = full,
                                                   .shape = SHAPE(channels),
                                                   .dtype = DTYPE_F32,
                                                   .role = ROLE_STATE,
                                                   .flags = TENSOR_OF_MODEL });
}

/* In training with the batch's own mean and variance, which the running ones take a share of. */
static tensor_id norm(const builder *b, const char *name, tensor_id x) {
    int64_t channels = shape_last(graph_shape(b->g, x)), rows = shape_rows(graph_shape(b->g, x));
    tensor_id gamma = images_parameter(b->g, SHAPE(channels), "%s.weight", name);
    tensor_id beta = images_parameter(b->g, SHAPE(channels), "%s.bias", name);
    tensor_id mean = state(b, name, "running_mean", channels),
              variance = state(b, name, "running_var", channels);
    if (b->mode != MODEL_TRAIN)
        return batch_norm_fixed_apply(b->g, (tensor_id[]){ x, gamma, beta, mean, variance }, EPSILON);
    tensor_id y = batch_norm_apply(b->g, x, gamma, beta, EPSILON);
    if (y)
        graph_add(b->g, &op_batch_norm_running, (tensor_id[]){ mean, variance, y + 1, y + 2 }, 4,
                  &(batch_norm_running_attributes){ .rows = rows, .eps = EPSILON, .momentum = MOMENTUM });
    return y;
}

/* A convolution without a bias, which the norm after it has. */
typedef struct {
    const char *name; /* after the prefix */
    int64_t out, size, stride;
} convolution;

static tensor_id convolve(const builder *b, tensor_id x, const convolution *c) {
    char name[160];
    snprintf(name, sizeof name, "%s%s.convolution", b->prefix, c->name);
    x = images_convolve(
        b->g, x,
        &(images_convolution){
            .name = name, .out = c->out, .size = c->size, .stride = c->stride, .padding = c->size / 2 });
    snprintf(name, sizeof name, "%s%s.normalization", b->prefix, c->name);
    return norm(b, name, x);
}

static tensor_id inside(const builder *b, tensor_id x, int64_t out, int64_t stride) {
    if (!b->c->bottleneck) {
        x = relu_apply(b->g, convolve(b, x, &(convolution){ "layer.0", out, 3, stride }));
        return convolve(b, x, &(convolution){ "layer.1", out, 3, 1 });
    }
    int64_t first = b->c->stride_first ? stride : 1;
    x = relu_apply(b->g, convolve(b, x, &(convolution){ "layer.0", out / 4, 1, first }));
    x = relu_apply(b->g, convolve(b, x, &(convolution){ "layer.1", out / 4, 3, stride / first }));
    return convolve(b, x, &(convolution){ "layer.2", out, 1, 1 });
}

static tensor_id block(const builder *b, tensor_id x, int64_t out, int64_t stride) {
    bool changes = shape_last(graph_shape(b->g, x)) != out || stride != 1;
    tensor_id y = inside(b, x, out, stride);
    tensor_id beside = changes ? convolve(b, x, &(convolution){ "shortcut", out, 1, stride }) : x;
    return relu_apply(b->g, add_apply(b->g, y, beside));
}

static tensor_id stem(builder *b, tensor_id x) {
    snprintf(b->prefix, sizeof b->prefix, "resnet.embedder.");
    x = relu_apply(b->g, convolve(b, x, &(convolution){ "embedder", b->c->embedding, 7, 2 }));
    return max_pool_apply(b->g, x, &(max_pool_attributes){ .size = 3, .stride = 2, .padding = 1 });
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    const resnet_config *c = m->config;
    builder b = { .g = g, .c = c, .mode = run->mode };
    int32_t site = 0;
    tensor_id x = images_input(g, &c->task, run->batch);
    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    x = stem(&b, x);
    for (int64_t s = 0; s < c->stages; s++)
        for (int64_t d = 0; d < c->depths[s]; d++) {
            snprintf(b.prefix, sizeof b.prefix, "resnet.encoder.stages.%lld.layers.%lld.", (long long)s,
                     (long long)d);
            g->site = site++;
            x = block(&b, x, c->channels[s], d == 0 && (s > 0 || c->shrink_first) ? 2 : 1);
        }
    g->site = SITE_NONE;
    images_finish(g, images_linear(g, mean_space_apply(g, x), "classifier.1", c->task.labels, true), run,
                  ports);
}

void resnet_model(const resnet_config *c, const char *name, model *m) {
    images_model(m, &c->task, "resnet", name);
    for (int64_t s = 0; s < c->stages; s++) m->layers += c->depths[s];
    m->build = build;
}
