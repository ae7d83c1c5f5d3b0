/* Published models by name, so that none has to be downloaded to be planned; a bare size ("7B") is the one
 * that comes nearest. */
#pragma once

#include "models/families.h"

typedef struct {
    const char *name, *type;
    int64_t layers, heads, kv_heads, head_size, channels, inner, context, vocabulary;
    double theta;
    bool tied;
} published_model;

extern const published_model published_models[]; /* end with name NULL; from small to large */

/* "llama-3-8b", or a size as "7B" or "400M", which mixtures of experts are not looked at for. False: neither.
 * `name` gets the name of what was taken. */
bool published_find(const char *text, model_config *c, const char **name);
/* Those that see images, by name; part of published_find. */
bool published_images_find(const char *text, model_config *c, const char **name);
/* Encoders and encoder-decoders, by name; part of published_find. */
bool published_texts_find(const char *text, model_config *c, const char **name);
double published_parameters(const published_model *p);
