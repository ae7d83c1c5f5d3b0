/* Transformers over the patches of an image: ViT with a head for classes, and CLIP's vision tower, which ends
 * in its projection; what a tower's embeddings are compared with is not part of it, so its loss takes them as
 * logits.
 *
 *     x = patches | class token before them, + positions;  x += o(attend(norm x));  x += fc2(f(fc1(norm x)))
 *
 * Papers: Dosovitskiy et al., arXiv:2010.11929; Radford et al., arXiv:2103.00020. */
#pragma once

#include "models/images.h"

typedef enum { VIT_GELU, VIT_GELU_TANH, VIT_QUICK_GELU } vit_activation;

typedef struct {
    images_task task; /* labels: of CLIP the width of its projection */
    bool clip;
    int64_t layers, heads, channels, inner;
    int64_t patch; /* its side, in pixels */
    vit_activation activation;
    bool bias_qkv;
    double dropout_hidden, dropout_attention, epsilon;
} vit_config;

status vit_check(const vit_config *c);

/* `c` must outlive the model. */
void vit_model(const vit_config *c, const char *name, model *m);
