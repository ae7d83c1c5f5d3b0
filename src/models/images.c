#include "models/images.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "models/check.h"
#include "ops/conv2d/conv2d.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/hits/hits.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"

status images_check(const images_task *t) {
    const model_range sizes[] = { { "image_size", t->height, 1, IMAGES_MOST_SIDE },
                                  { "image_size", t->width, 1, IMAGES_MOST_SIDE },
                                  { "num_channels", t->channels, 1, IMAGES_MOST_CHANNELS },
                                  { "num_labels", t->labels, 1, 1 << 24 } };
    return MODEL_CHECK_RANGES(sizes);
}

status images_check_stages(int64_t count, int64_t most, const int64_t *channels, const int64_t *depths) {
    int64_t blocks = 0;
    TRY(model_check_ranges(&(model_range){ "the number of stages", count, 1, most }, 1));
    for (int64_t i = 0; i < count; i++) {
        const model_range stage[] = { { "hidden_sizes", channels[i], 1, IMAGES_MOST_CHANNELS },
                                      { "depths", depths[i], 1, IMAGES_MOST_BLOCKS } };
        TRY(MODEL_CHECK_RANGES(stage));
        blocks += depths[i];
    }
    if (blocks > IMAGES_MOST_BLOCKS)
        return status_set(STATUS_INVALID, "depths add up to %lld; there may be %d blocks", (long long)blocks,
                          IMAGES_MOST_BLOCKS);
    return STATUS_OK;
}

tensor_id images_parameter(graph *g, shape s, const char *format, ...) {
    char name[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return model_parameter(g, name, s, s.rank > 1 ? TENSOR_DECAY : 0);
}

tensor_id images_input(graph *g, const images_task *t, int64_t batch) {
    return model_input(g, "images", SHAPE(batch, t->height, t->width, t->channels), DTYPE_F32);
}

tensor_id images_linear(graph *g, tensor_id x, const char *name, int64_t out, bool bias) {
    shape w = SHAPE(out, shape_last(graph_shape(g, x)));
    matmul_inputs in = { .a = x, .b = images_parameter(g, w, "%s.weight", name), .tb = true };
    if (bias) in.bias = images_parameter(g, SHAPE(out), "%s.bias", name);
    return matmul_apply(g, &in);
}

tensor_id images_layernorm(graph *g, tensor_id x, const char *name, double epsilon) {
    shape width = SHAPE(shape_last(graph_shape(g, x)));
    tensor_id gamma = images_parameter(g, width, "%s.weight", name);
    return layernorm_apply(g, x, gamma, images_parameter(g, width, "%s.bias", name), (float)epsilon);
}

tensor_id images_convolve(graph *g, tensor_id x, const images_convolution *c) {
    int64_t groups = c->groups ? c->groups : 1;
    shape w = SHAPE(c->out, shape_last(graph_shape(g, x)) / groups, c->size, c->size);
    tensor_id weight = images_parameter(g, w, "%s.weight", c->name);
    return conv2d_apply(g, x, weight, c->bias ? images_parameter(g, SHAPE(c->out), "%s.bias", c->name) : 0,
                        &(conv2d_attributes){ .stride = (int32_t)c->stride,
                                              .padding = (int32_t)c->padding,
                                              .groups = (int32_t)groups });
}

void images_finish(graph *g, tensor_id logits, const model_run *run, model_ports *ports) {
    *ports = (model_ports){ .logits = logits };
    if (model_mode_continues(run->mode)) {
        graph_fail(g, "a model of images continues no text");
        return;
    }
    tensor_id labels = model_input(g, "labels", SHAPE(run->batch), DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32);
    if (run->mode == MODEL_EVALUATE) {
        graph_keep(g, hits_apply(g, logits, labels), "hits");
        graph_keep(g, model_shown(g, logits), "logits");
    }
    ports->loss = cross_entropy_apply(g, logits, labels, scale, model_result(g, "loss"));
}

static uint32_t fields(const model *m, int64_t context, model_field out[MODEL_MAX_FIELDS]) {
    const images_task *t = m->config;
    (void)context;
    out[0] =
        (model_field){ .name = "images", .of = SHAPE(t->height, t->width, t->channels), .dtype = DTYPE_F32 };
    out[1] = (model_field){ .name = "labels", .dtype = DTYPE_I32 };
    return 2;
}

/* Normal matrices and kernels; scales 1, biases 0. Convolutions that a rectifier follows begin as He et al.
 * have it (arXiv:1502.01852); the scales that blocks end in as the task says. */
static void initial(const model *m, const char *parameter, const shape *s, model_initial *out) {
    bool bias = text_ends_with(parameter, ".bias") || text_ends_with(parameter, ".running_mean"),
         rectified = strcmp(m->family, "resnet") == 0 && s->rank == 4;
    *out = (model_initial){ .stream = model_stream(parameter) };
    if (rectified)
        out->deviation = sqrtf(2 / (float)(s->dim[0] * s->dim[2] * s->dim[3]));
    else if (s->rank > 1)
        out->deviation = 0.02f;
    else if (text_ends_with(parameter, ".layer_scale_parameter") || text_ends_with(parameter, ".lambda1"))
        out->mean = (float)((const images_task *)m->config)->layer_scale;
    else if (!bias)
        out->mean = 1;
}

void images_model(model *m, const images_task *t, const char *family, const char *name) {
    *m = (model){ .family = family,
                  .config = t,
                  .sees = true,
                  .initial = initial,
                  .fields = fields,
                  .no_text = "it sees images" };
    snprintf(m->name, sizeof m->name, "%s", name);
}
