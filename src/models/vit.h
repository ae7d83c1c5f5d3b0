/* Transformers over the patches of an image: ViT with a head for classes; DINOv2, whose halves of blocks end
 * in a learned factor for each channel, and whose head sees the class token beside the mean of the patches;
 * and CLIP's vision tower, which ends in its projection; what a tower's embeddings are compared with is not
 * part of it, so its loss takes them as logits.
 *
 *     x = patches | class token before them, + positions;  x += o(attend(norm x));  x += fc2(f(fc1(norm x)))
 *
 * Papers: Dosovitskiy et al., arXiv:2010.11929; Radford et al., arXiv:2103.00020; Oquab et al.,
 * arXiv:2304.07193. */
#pragma once

#include "models/images.h"

typedef enum { VIT_PLAIN, VIT_CLIP, VIT_DINO2 } vit_kind;
typedef enum { VIT_GELU, VIT_GELU_TANH, VIT_QUICK_GELU } vit_activation;

typedef struct {
    images_task task; /* labels: of CLIP the width of its projection */
    vit_kind kind;
    int64_t layers, heads, channels, inner;
    int64_t patch; /* its side, in pixels */
    vit_activation activation;
    bool bias_qkv;
    double ratio; /* of DINOv2, from which its `inner` follows (vit_dino_inner) */
    bool gated;   /* feed-forwards are silu(gate) * up, as DINOv2's giant has them */
    bool masked;  /* a vector for hidden patches is there, of which images that are whole take nothing */
    double dropout_hidden, dropout_attention, epsilon;
} vit_config;

/* DINOv2's feed-forward by the width of the model and its mlp_ratio: of gated ones two thirds of it. */
int64_t vit_dino_inner(int64_t channels, double ratio, bool gated);

status vit_check(const vit_config *c);

/* `c` must outlive the model. */
void vit_model(const vit_config *c, const char *name, model *m);
