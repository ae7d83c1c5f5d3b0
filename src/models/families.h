/* Every family of models as one type: for those who open, check and build a model and don't care whose. */
#pragma once

#include "models/convnext.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/gpt2.h"
#include "models/head.h"
#include "models/modernbert.h"
#include "models/resnet.h"
#include "models/t5.h"
#include "models/vit.h"

typedef enum {
    FAMILY_GPT2,
    FAMILY_DECODER,
    FAMILY_ENCODER,
    FAMILY_MODERNBERT,
    FAMILY_T5,
    FAMILY_VIT,
    FAMILY_RESNET,
    FAMILY_CONVNEXT
} model_family;

/* Tokens that mean something to whoever generates: carried from config.json to config.json. */
enum { FAMILIES_MOST_ENDS = 8, FAMILIES_TASK_BYTES = 96 };
typedef struct {
    int64_t begin, end[FAMILIES_MOST_ENDS];
    int64_t padding; /* that fills samples up */
    bool has_begin, has_padding;
    uint32_t ends;
} families_tokens;

/* What a configuration of the timm library says beside sizes; its architecture's name is empty in others. */
typedef struct {
    char architecture[48], interpolation[16];
    double mean[3], deviation[3], crop; /* of pictures; crop: the window's part of the shorter side */
} families_timm;

typedef struct {
    model_family family;
    families_timm timm;
    families_tokens tokens;
    /* What a configuration says that it is made for, where that is no task of its family's builder:
     * "BertForTokenClassification"; else empty. Its sizes hold all the same. */
    char other_task[FAMILIES_TASK_BYTES];
    model_head head;
    const char *const *label_names; /* of its outputs, the caller's; NULL: LABEL_0, LABEL_1 ... */
    union {
        gpt2_config gpt2;
        decoder_config decoder;
        vit_config vit;
        resnet_config resnet;
        convnext_config convnext;
        encoder_config encoder;
        modernbert_config modernbert;
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
int64_t families_width(const model_config *c); /* of its hidden states, of families of texts; else 0 */
/* A larger one: tokens that mean something stay what they are. Of families that have tokens. */
void families_grow_vocabulary(model_config *c, int64_t size);

/* By which names files hold the weights of its experts; NULL: it has none. */
const decoder_experts_names *families_experts(const model_config *c);
/* Of how many tensors those are. */
int64_t families_expert_tensors(const model_config *c);

/* ---- models that fill gaps ---- */

bool families_fills(const model_config *c);
/* The token that hides others, which may be set; NULL: it fills no gaps. families_usual_mask: what it is
 * where nothing says so. */
int64_t *families_mask(model_config *c);
int64_t families_usual_mask(const model_config *c);
/* Labels of a classifier of tokens in the place of the head that fills gaps; 0: there is none. They are set
 * of models that fill gaps. */
int64_t families_token_labels(const model_config *c);
void families_set_token_labels(model_config *c, int64_t labels);

/* Can its models have a head that judges whole samples? */
bool families_judges(const model_config *c);
/* The class that transformers has for it, by its head: "BertForMaskedLM", "BertForSequenceClassification";
 * empty where its config.json is written elsewhere. */
enum { FAMILIES_CLASS_BYTES = 64 };
const char *families_class(const model_config *c, char out[FAMILIES_CLASS_BYTES]);
/* The token that fills such samples up: the configuration's, else the one that ends a text, else 0. */
int64_t families_padding(const model_config *c);

/* `c` must outlive the model. */
void families_model(const model_config *c, const char *name, model *m);

/* What model_types can be read: "gpt2, llama, mistral, ...". */
enum { FAMILIES_NAMES_BYTES = 1024 };
const char *families_types(char names[FAMILIES_NAMES_BYTES]);

/* ---- models that see images ---- */

const images_task *families_images(const model_config *c); /* NULL: it sees none */
bool families_takes_any_size(const model_config *c);
/* Its outputs are a projection, CLIP's, and no list of classes. */
bool families_projects(const model_config *c);
/* The latter two of models that see images. */
void families_set_images(model_config *c, int64_t height, int64_t width);
void families_set_labels(model_config *c, int64_t labels);
