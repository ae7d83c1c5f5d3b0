/* A tiny model of a family beside what Hugging Face's transformers makes of it, which
 * tools/goldens_transformers.py wrote: ten losses, the last norm, and of every gradient of the first step its
 * norm and its first values. Fails the test where they differ. */
#pragma once

#include "golden/golden.h"
#include "io/model_config.h"
#include "run/lab.h"

typedef struct {
    golden golden;
    model_config config;
    lab lab;
} transformers;

void transformers_config(const char *family, model_config *c);

/* Not to be moved. Encoders get tokens of which every fourth is hidden, models of images images. */
void transformers_open(transformers *t, const char *family);
void transformers_close(transformers *t);

void transformers_losses(const char *family, int64_t micro_batch, const char *settings);
void transformers_gradients(const char *family);
/* Of a head that judges samples: what it says of those of the first step. */
void transformers_logits(const char *family);
/* Written as config.json into the working directory, a scratch one, and read again it is the same. */
void transformers_configuration(const char *family);

/* The same of each family of a list that NULL ends. */
void transformers_losses_of(const char *const *families, int64_t micro_batch, const char *settings);
void transformers_gradients_of(const char *const *families);
