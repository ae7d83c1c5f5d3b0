/* What models that say what is in an image have in common: their samples, the head that they end in, and how
 * builders name weights. Images lie with channels last, (B,H,W,C), so that a pixel is a row; weights have
 * names and layouts of transformers (5.23).
 *
 * A configuration begins with its images_task, so that what needs no more finds it. */
#pragma once

#include "models/model.h"

typedef struct {
    int64_t height, width, channels; /* of the images */
    int64_t labels;                  /* classes */
    double layer_scale; /* what a block's factors for its channels begin with; ConvNeXt 0: it has none */
} images_task;

enum { IMAGES_MOST_SIDE = 1 << 14, IMAGES_MOST_CHANNELS = 1 << 16, IMAGES_MOST_BLOCKS = 1024 };

status images_check(const images_task *t);
/* Of each of `count` (1 to `most`) stages: its channels, and how many blocks it has. */
status images_check_stages(int64_t count, int64_t most, const int64_t *channels, const int64_t *depths);

/* ---- for builders ---- */

/* Trainable, f32; the name is made as printf does. Matrices and kernels decay. */
tensor_id images_parameter(graph *g, shape s, const char *format, ...) __attribute__((format(printf, 3, 4)));
tensor_id images_input(graph *g, const images_task *t, int64_t batch);

/* x W' + b, and a layer norm, of weights "NAME.weight" and "NAME.bias". */
tensor_id images_linear(graph *g, tensor_id x, const char *name, int64_t out, bool bias);
tensor_id images_layernorm(graph *g, tensor_id x, const char *name, double epsilon);

/* "NAME.weight" (out,in/groups,size,size), "NAME.bias" (out). */
typedef struct {
    const char *name;
    int64_t out, size, stride, padding, groups; /* groups 0: 1 */
    bool bias;
} images_convolution;
tensor_id images_convolve(graph *g, tensor_id x, const images_convolution *c);

/* Ends a model: logits (B,labels) by the head `name`, and in training and evaluation their loss. */
void images_finish(graph *g, tensor_id logits, const model_run *run, model_ports *ports);

/* m's name, family and config; the rest is the family's. */
void images_model(model *m, const images_task *t, const char *family, const char *name);
