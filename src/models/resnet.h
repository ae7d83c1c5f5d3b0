/* Residual networks of convolutions, as Hugging Face's `resnet` has them: a stem that quarters the image,
 * then stages of blocks, each stage after the first halving it again; basic blocks of two convolutions, or
 * bottlenecks of three, whose middle one strides. Batch norm makes samples see each other, so a batch is not
 * cut. Papers: He et al., arXiv:1512.03385; Goyal et al., arXiv:1706.02677 (where bottlenecks stride). */
#pragma once

#include "models/images.h"

enum { RESNET_MOST_STAGES = 16 };

typedef struct {
    images_task task;
    int64_t embedding; /* channels after the stem */
    int64_t stages, channels[RESNET_MOST_STAGES], depths[RESNET_MOST_STAGES];
    bool bottleneck, stride_first; /* of a stage's first bottleneck: its first convolution strides */
    bool shrink_first;             /* the first stage halves the image as well */
} resnet_config;

status resnet_check(const resnet_config *c);

/* `c` must outlive the model. */
void resnet_model(const resnet_config *c, const char *name, model *m);
