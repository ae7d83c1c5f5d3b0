/* The families' own halves of io/model_config: reading and writing of the members of config.json. */
#pragma once

#include "io/json.h"
#include "io/model_config.h"
#include "models/families.h"
#include "models/label_names.h"

/* What helps where no builder has the model: to train it, a step that is recorded without a GPU
 * (docs/recording.md), by that recipe's program, of that file. To serve it nothing: a step is of training. */
enum { CONFIG_REMEDY_BYTES = 512 };
void model_config_remedy(model_config_use use, const char *recipe, const char *file,
                         char out[CONFIG_REMEDY_BYTES]);

status config_gpt2_read(json_value root, gpt2_config *c);
void config_gpt2_put(json_writer *w, const gpt2_config *c);
bool config_gpt2_knows(const char *key);

/* c->kind is set. */
status config_decoder_read(json_value root, decoder_config *c);
void config_decoder_put(json_writer *w, const decoder_config *c);
bool config_decoder_knows(const char *key);

/* The decoders' mixtures of experts; nothing where c->kind has none. c->inner and c->layers are set. */
status config_experts_read(json_value root, decoder_config *c);
void config_experts_put(json_writer *w, const decoder_config *c);
bool config_experts_knows(const char *key);

/* Those that see images. `find`: is it one of theirs, and of which family? `read` wants c->family. */
bool config_images_find(const char *type, model_family *family);
status config_images_read(json_value root, const char *type, model_config *c);
void config_images_put(json_writer *w, const model_config *c);
bool config_images_knows(const char *key);

/* The same as the timm library writes them; `is`: this configuration is such a one. `names`: of the classes.
 */
bool config_timm_is(json_value root);
status config_timm_read(json_value root, model_config_use use, model_config *c);
void config_timm_put(json_writer *w, const model_config *c);
bool config_timm_knows(const char *key);
status config_timm_names(json_value root, const model_config *c, label_names *names);

/* c->kind is set. */
status config_encoder_read(json_value root, encoder_config *c);
void config_encoder_put(json_writer *w, const encoder_config *c);
bool config_encoder_knows(const char *key);

status config_modernbert_read(json_value root, modernbert_config *c);
void config_modernbert_put(json_writer *w, const modernbert_config *c);
bool config_modernbert_knows(const char *key);

/* c->type is set. */
status config_t5_read(json_value root, t5_config *c);
void config_t5_put(json_writer *w, const t5_config *c);
bool config_t5_knows(const char *key);
/* Where config.json says none, padding is 0 and a text ends with 1, as transformers has it. */
void config_t5_tokens(json_value root, families_tokens *t);

/* Heads that judge whole samples: c->head, or c->other_task where no builder has the head; the rest of c is
 * read. What it puts is nothing where the head is the language's. */
status config_head_read(json_value root, model_config *c);
void config_head_put(json_writer *w, const model_config *c);
/* "architectures": what a class of transformers is called whose head may be another one. */
void config_class_put(json_writer *w, const model_config *c);
/* The names of the outputs of c->head, by their ids. */
status config_head_names(json_value root, const model_config *c, label_names *names);

/* Shared: a probability below 1, left alone where there is none. */
status model_config_dropout(json_value root, const char *key, double *p);
