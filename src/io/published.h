/* Published models by name, so that none has to be downloaded to be planned; a bare size ("7B") is the one
 * that comes nearest. Each is a file of published/, a config.json with one key more: how many "parameters"
 * the model has. The library carries them. */
#pragma once

#include "models/families.h"

typedef struct {
    const char *name, *text;
} published_model;

extern const published_model published_models[]; /* by name; end with name NULL */

/* How a name was understood. */
typedef enum {
    PUBLISHED_NONE,
    PUBLISHED_NAME,    /* "llama-3-8b", "meta-llama/Llama-3-8B" */
    PUBLISHED_VARIANT, /* "mistralai/Mistral-7B-v0.1", for which mistral-7b is taken */
    PUBLISHED_SIZE     /* "7B" or "400M": a dense decoder whose name says so, or else comes nearest */
} published_match;

/* Finds it and reads it into `c`; `name` gets the name of what was taken. No size is taken for one of less
 * than half or more than twice of it. */
published_match published_find(const char *said, model_config *c, const char **name);

/* STATUS_INVALID: a sentence for a name that is nothing, with what may have been meant. */
status published_unknown(const char *said);

double published_parameters(const published_model *p);
