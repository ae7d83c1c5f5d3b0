/* Weights of ViT, ResNet and ConvNeXt by the names that the timm library has for them, with the queries, keys
 * and values of a ViT in one tensor.
 *
 *   ours: vit.layers.0.attention.q_proj.weight          timm: blocks.0.attn.qkv.weight, its first third
 *         resnet.encoder.stages.0.layers.1.layer.0.convolution.weight    layer1.1.conv1.weight
 *         convnext.encoder.stages.2.layers.3.dwconv.bias                 stages.2.blocks.3.conv_dw.bias
 *
 * Files are translated once, behind their opening or before their writing; nobody else knows these names. */
#pragma once

#include "io/safetensors.h"

/* Gives the tensors of an open set our names, where it has timm's; else does nothing. A tensor of queries,
 * keys and values becomes three. STATUS_FAILED without memory; the set is to be closed as before. */
status timm_files_read(safetensors *s);

/* What is written, by timm's names: `items` are ours, at most as many come out, in their order. */
typedef struct {
    safetensors_item *items;
    uint32_t count;
    void *held; /* names, and what is put together; all lasts until timm_files_close */
} timm_files;
status timm_files_write(const safetensors_item *items, uint32_t count, timm_files *t);
void timm_files_close(timm_files *t); /* fine on a zeroed one */
