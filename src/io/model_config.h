/* config.json of a model, as Hugging Face's transformers writes it: from model_type to a family's own
 * configuration and back.
 *
 * What transformers has a default for may be absent; a size that is missing, wrong types, impossible sizes
 * and whatever would change what is computed and isn't known are STATUS_INVALID, with file and key. Keys that
 * nobody knows are passed over; `notes` names them. */
#pragma once

#include "base/text.h"
#include "models/families.h"
#include "models/label_names.h"

/* Reads `path` (a config.json, or a directory that has one). A configuration that comes back passes
 * families_check. `notes` (may be NULL) gets sentences for people. */
status model_config_read(const char *path, model_config *c, text *notes);
/* The same. What is refused since no builder has it says what helps for that use instead. */
typedef enum { MODEL_CONFIG_TRAINED, MODEL_CONFIG_SERVED } model_config_use;
status model_config_read_for(model_config_use use, const char *path, model_config *c, text *notes);

/* The same of a text that is there; `name` for sentences. */
status model_config_parse(const char *name, const char *json, model_config *c);

/* Writes config.json and generation_config.json into the directory. `stored` (may be NULL): how weights are
 * stored, where that is not f32; what are no plain numbers io/quantized_files.h describes. */
typedef struct {
    const char *method, *setting; /* of a pass: pass.stores, and its setting's text; NULL: plain numbers */
    dtype type;                   /* of matrices; NONE: f32 */
} model_config_stored;
status model_config_write(const char *directory, const model_config *c, const model_config_stored *stored);

/* What config.json would say: equal texts are equal models. */
void model_config_text(const model_config *c, text *out);

/* Adds the names of the classes of its head, in the order of their ids: those of "id2label", or LABEL_0,
 * LABEL_1 ... where there are none. STATUS_INVALID where ids are not the numbers from 0 on or two have one
 * name. `path` as in model_config_read. */
status model_config_labels(const char *path, const model_config *c, label_names *names);

/* Does the directory's config.json, where there is one, say a model that answers texts, whose prompts and
 * completions are texts of their own? */
status model_config_answers(const char *directory, bool *answers);

/* The tokens that end a text: what the directory's generation_config.json says, where it does, else its
 * config. `c` NULL: its config.json is asked, of whatever type the model is, where there is one. */
status model_config_ends(const char *directory, const model_config *c, families_tokens *t);
