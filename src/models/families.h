/* Every family of models as one type: for those who open, check and build a model and don't care whose. */
#pragma once

#include "models/convnext.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/gpt2.h"
#include "models/resnet.h"
#include "models/t5.h"
#include "models/vit.h"

typedef enum {
    FAMILY_GPT2,
    FAMILY_DECODER,
    FAMILY_ENCODER,
    FAMILY_T5,
    FAMILY_VIT,
    FAMILY_RESNET,
    FAMILY_CONVNEXT
} model_family;

/* Tokens that mean something to whoever generates: carried from config.json to config.json. */
enum { FAMILIES_MOST_ENDS = 8, FAMILIES_TASK_BYTES = 64 };
typedef struct {
    int64_t begin, end[FAMILIES_MOST_ENDS];
    bool has_begin;
    uint32_t ends;
} families_tokens;

typedef struct {
    model_family family;
    families_tokens tokens;
    /* What a configuration says that it is made for, where that is no task of its family's builder:
     * "BertForSequenceClassification"; else empty. Its sizes hold all the same. */
    char other_task[FAMILIES_TASK_BYTES];
    union {
        gpt2_config gpt2;
        decoder_config decoder;
        vit_config vit;
        resnet_config resnet;
        convnext_config convnext;
        encoder_config encoder;
        t5_config t5;
    };
} model_config;

/* Presets by name: gpt2's. False: no such preset. */
bool families_preset(const char *name, model_config *c);
const char *families_preset_names(void); /* for messages */

status families_check(const model_config *c);
void families_set_dropout(model_config *c, double p); /* everywhere in the model */
int64_t families_context(const model_config *c);
/* Do products hold their weights as (in, out)? transformers' Conv1D does, its Linear has (out, in). */
bool families_has_conv1d(const model_config *c);
bool families_learns_positions(const model_config *c); /* a vector for each, which only training fills */
int64_t families_vocabulary(const model_config *c);

/* `c` must outlive the model. */
void families_model(const model_config *c, const char *name, model *m);

/* What model_types can be read: "gpt2, llama, mistral, ...". */
enum { FAMILIES_NAMES_BYTES = 512 };
const char *families_types(char names[FAMILIES_NAMES_BYTES]);
