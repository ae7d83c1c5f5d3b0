/* Weights of ViT's blocks: transformers (5) calls them "vit.layers.0.attention.q_proj.weight", and its files
 * "vit.encoder.layer.0.attention.attention.query.weight", as all versions before did. */
#pragma once

#include <stdbool.h>

enum { VIT_FILES_NAME_BYTES = 160 };

/* The name in files of a weight; false: it is no such weight, or is called the same there. */
bool vit_files_name(const char *weight, char name[VIT_FILES_NAME_BYTES]);
