/* Frameworks that are asked what a model takes in them: one interface, so that whoever asks (does it fit? how
 * long a context fits? on how many devices?) need not know whose rules answer.
 *
 * A framework has settings of its own, and says of them: whether they contradict each other, how many bytes
 * they come to, by layer and by term, and what could be changed so that they come to less. Bytes are those of
 * one device. snug itself is not among them: there the answer is the plan (cli/plan_command.c). */
#pragma once

#include "base/text.h"
#include "estimate/hardware.h"
#include "estimate/interval.h"
#include "estimate/llama_cpp.h"
#include "estimate/torch.h"
#include "estimate/vllm.h"
#include "models/families.h"

typedef enum {
    FRAMEWORK_HF,
    FRAMEWORK_PYTORCH,
    FRAMEWORK_SNUG,
    FRAMEWORK_VLLM,
    FRAMEWORK_LLAMA_CPP,
    FRAMEWORK_LITGPT,
    FRAMEWORK_LLMC,
    FRAMEWORKS
} framework_name;

/* What the answer is about. */
typedef struct {
    const model *model;
    const model_config *config;
    const hardware *hardware; /* of which memory is 0 where none is named */
} framework_subject;

/* Which of them counts is for the framework to know. */
typedef union {
    torch_settings torch;
    vllm_settings vllm;
    llama_cpp_settings llama_cpp;
} framework_settings;

/* ---- what is answered ---- */

/* Live: tensors. Reserved: what the framework's allocators hold. Device: what the driver counts for the
 * process. */
typedef enum { FRAMEWORK_LIVE, FRAMEWORK_RESERVED, FRAMEWORK_DEVICE, FRAMEWORK_LAYERS } framework_layer;
const char *framework_layer_name(framework_layer l);

typedef struct {
    const char *name;
    uint64_t bytes;
} framework_term;

/* Other numbers of an answer, as the longest context that fits. */
typedef enum { FRAMEWORK_COUNT, FRAMEWORK_BYTES, FRAMEWORK_TIMES } framework_unit;
typedef struct {
    const char *key, *label; /* in JSON; for people */
    framework_unit unit;
    framework_layer layer; /* of bytes */
    double low, likely, high;
} framework_fact;

enum { FRAMEWORK_MOST_TERMS = 12, FRAMEWORK_MOST_FACTS = 16 };
typedef struct {
    interval layers[FRAMEWORK_LAYERS];
    interval
        beside; /* of the whole device: what is neither reserved nor the context, as collectives' buffers */
    framework_layer least_layer, last_layer; /* those that mean something here */
    framework_term terms[FRAMEWORK_MOST_TERMS];
    framework_fact facts[FRAMEWORK_MOST_FACTS];
    uint32_t term_count, fact_count;
    framework_layer terms_of; /* the layer that terms add up to */
    const char *peak_in;      /* "backward": when live bytes are most; NULL: nothing to say */
    uint64_t parameters, trained;
    bool fits, surely; /* by the likely value; by the upper end as well */
    uint64_t beyond;   /* bytes left over, or missing */
    const char *left;  /* "of the cache are left ...": what is, where it is no free memory of the device */
} framework_result;

const framework_term *framework_largest(const framework_result *r);
void framework_add_term(framework_result *r, const char *name, uint64_t bytes); /* none where bytes is 0 */
void framework_add_fact(framework_result *r, const framework_fact *f);
/* Sets layers from reserved on, and whether that fits, for those that ask the device for what they reserve.
 */
void framework_place(const framework_subject *q, framework_result *r, const interval *reserved);

/* ---- what can be asked ---- */

/* Settings that have a counterpart in every framework: what --solve turns. */
typedef enum { FRAMEWORK_BATCH, FRAMEWORK_CONTEXT, FRAMEWORK_GPUS } framework_variable;

enum { FRAMEWORK_CHANGE_BYTES = 96 };
typedef struct {
    /* Changes settings and says so as options; false: they are so already, or it means nothing here. */
    bool (*apply)(const framework_subject *q, framework_settings *s, char text[FRAMEWORK_CHANGE_BYTES]);
    /* The same in the words of those who use the framework, once applied; NULL: options are its own. */
    void (*own)(const framework_settings *s, char text[FRAMEWORK_CHANGE_BYTES]);
    bool alone;   /* not to be taken beside others: another of them does the same, or what is made changes */
    bool repeats; /* may be applied again and again; the text of the last time counts */
    bool alters;  /* what is trained, or in which numbers, is no longer what was asked */
} framework_change;

typedef struct {
    const char *name, *title;        /* "hf"; for people */
    const framework_change *changes; /* from those that cost nothing to those that change what is made */
    uint32_t change_count;
    status (*check)(const framework_subject *q,
                    const framework_settings *s); /* STATUS_INVALID: contradictions */
    status (*estimate)(const framework_subject *q, const framework_settings *s, framework_result *r);
    /* What is asked, in a line for people, and what is to be known of the device. */
    void (*describe)(const framework_subject *q, const framework_settings *s, const framework_result *r,
                     text *out);
    int64_t *(*variable)(framework_settings *s, framework_variable v); /* NULL: there is no such setting */
} framework;

extern const framework framework_hf, framework_pytorch, framework_vllm, framework_llama_cpp, framework_litgpt,
    framework_llmc;
const framework *framework_of(framework_name n); /* NULL: snug */

/* ---- what would help ---- */

typedef struct {
    char text[4 * FRAMEWORK_CHANGE_BYTES]; /* options; "": nothing that is known makes it fit */
    bool alters;                           /* one of them does */
    framework_settings settings;           /* with those changes */
    framework_result result;
} framework_advice;

/* The first change that suffices alone; else as many as it takes, one after the other. What leaves the
 * training as it is comes first, then what alters it, then as many devices as it takes. */
status framework_advise(const framework *f, const framework_subject *q, const framework_settings *s,
                        framework_advice *out);
/* The same, for what is to have room as well. */
status framework_advise_room(const framework *f, const framework_subject *q, const framework_settings *s,
                             framework_advice *out);
/* Of all that framework_advise tries what leaves the least missing; "": nothing helps. */
status framework_nearest(const framework *f, const framework_subject *q, const framework_settings *s,
                         framework_advice *out);

/* Fits by the upper end of the interval too, and by the likely value with 2 % to spare. */
bool framework_has_room(const framework_subject *q, const framework_result *r);

/* A change (framework_change.apply): the longest context that fits, in steps of 256; false: none does. */
bool framework_shorten(const framework *f, const framework_subject *q, framework_settings *s,
                       char out[FRAMEWORK_CHANGE_BYTES]);
/* Likewise twice, four times ... as many devices, at most 1024. */
bool framework_spread(const framework *f, const framework_subject *q, framework_settings *s,
                      char out[FRAMEWORK_CHANGE_BYTES]);
