/* ConvNeXt: convolutions in the shape of a transformer. A stem of patches; stages of blocks, between which
 * the image is halved:
 *
 *     x += scale(fc2(gelu(fc1(norm(depthwise 7x7 convolution of x)))))
 *
 * Stochastic depth (drop_path_rate) is not part of the graph: it keeps nothing.
 * Paper: Liu et al., "A ConvNet for the 2020s", arXiv:2201.03545. */
#pragma once

#include "models/images.h"

enum { CONVNEXT_MOST_STAGES = 16 };

typedef struct {
    images_task task;
    int64_t patch, stages, channels[CONVNEXT_MOST_STAGES], depths[CONVNEXT_MOST_STAGES];
    bool scaled;    /* blocks have a factor for each channel */
    double epsilon; /* of the last norm */
} convnext_config;

status convnext_check(const convnext_config *c);

/* `c` must outlive the model. */
void convnext_model(const convnext_config *c, const char *name, model *m);
