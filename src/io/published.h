/* Published models by name, so that none has to be downloaded to be planned; a bare size ("7B") is the one
 * that comes nearest. Each is a file of published/, a config.json with one key more: how many "parameters"
 * the model has. The library carries them. */
#pragma once

#include "models/families.h"

typedef struct {
    const char *name, *text;
} published_model;

extern const published_model published_models[]; /* by name; end with name NULL */

/* "llama-3-8b", or a size as "7B" or "400M", for which dense decoders are looked at. False: neither. `name`
 * gets the name of what was taken. */
bool published_find(const char *said, model_config *c, const char **name);
double published_parameters(const published_model *p);
