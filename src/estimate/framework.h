/* Frameworks whose memory is estimated, behind one interface: the callers (does it fit? how long a context
 * fits? on how many devices?) need not know which framework's rules are used.
 *
 * Each framework has settings of its own. It checks them for contradictions, estimates their bytes by layer
 * and by term, and lists changes of settings that reduce them. All bytes are those of one device. snug itself
 * is not in the list: its answer is a plan (cli/plan_command.c). */
#pragma once

#include "base/text.h"
#include "estimate/hardware.h"
#include "estimate/interval.h"
#include "estimate/llama_cpp/llama_cpp.h"
#include "estimate/megatron/megatron.h"
#include "estimate/recorded/recording.h"
#include "estimate/serving/engine.h"
#include "estimate/titan/titan.h"
#include "estimate/torch/torch.h"
#include "estimate/vllm/vllm.h"
#include "models/families.h"

typedef enum {
    FRAMEWORK_HF,
    FRAMEWORK_PYTORCH,
    FRAMEWORK_SNUG,
    FRAMEWORK_VLLM,
    FRAMEWORK_LLAMA_CPP,
    FRAMEWORK_LITGPT,
    FRAMEWORK_LLMC,
    FRAMEWORK_MEGATRON,
    FRAMEWORK_SGLANG,
    FRAMEWORK_TRTLLM,
    FRAMEWORK_TITAN,
    FRAMEWORKS
} framework_name;

/* The model and the device of a question. */
typedef struct {
    const model *model;
    const model_config *config;
    const hardware *hardware;    /* its memory is 0 where no device is named */
    const recording *recorded;   /* the step, of framework_recorded; else NULL */
    const megatron_shape *shape; /* of framework_megatron, of what config can't say; else NULL */
} framework_subject;

/* Each framework reads its own member. */
typedef union {
    torch_settings torch;
    vllm_settings vllm;
    engine_settings engine; /* of SGLang and of TensorRT-LLM */
    llama_cpp_settings llama_cpp;
    megatron_settings megatron;
    titan_settings titan;
} framework_settings;

/* ---- the estimate ---- */

/* Live: tensors. Reserved: what the framework's allocators hold. Device: what the driver counts for the
 * process. */
typedef enum { FRAMEWORK_LIVE, FRAMEWORK_RESERVED, FRAMEWORK_DEVICE, FRAMEWORK_LAYERS } framework_layer;
const char *framework_layer_name(framework_layer l);

typedef struct {
    const char *name;
    uint64_t bytes;
} framework_term;

/* Further results, such as the longest context that fits. */
typedef enum {
    FRAMEWORK_COUNT,
    FRAMEWORK_BYTES,
    FRAMEWORK_TIMES,
    FRAMEWORK_HOURS,
    FRAMEWORK_SECONDS
} framework_unit;
typedef struct {
    const char *key, *label; /* in JSON; for people */
    framework_unit unit;
    framework_layer layer; /* of bytes */
    double low, likely, high;
} framework_fact;

enum { FRAMEWORK_MOST_TERMS = 12, FRAMEWORK_MOST_FACTS = 24, FRAMEWORK_MOST_UNKNOWN = 8 };
typedef struct {
    interval layers[FRAMEWORK_LAYERS];
    interval host; /* memory of the host that a node needs; 0: not known */
    uint64_t
        least; /* of a server, which fills what it is let to: what it can't start without; 0: no server */
    interval beside; /* device memory that is neither reserved nor the context's: buffers of collectives */
    framework_layer least_layer, last_layer; /* the layers that this framework estimates */
    framework_term terms[FRAMEWORK_MOST_TERMS];
    framework_fact facts[FRAMEWORK_MOST_FACTS];
    const char *under[FRAMEWORK_MOST_FACTS]; /* by fact: a heading that begins with it; NULL: none does */
    uint32_t term_count, fact_count;
    char time_is[160];                           /* the heading of hours; "": nobody asks for them */
    const char *unknown[FRAMEWORK_MOST_UNKNOWN]; /* sentences on what has no rule */
    uint32_t unknown_count;
    framework_layer terms_of; /* the layer that terms add up to */
    const char *peak_in;      /* the phase of the live peak, as "backward"; NULL: not known */
    uint64_t parameters, trained;
    bool fits, surely; /* by the likely value; by the upper end of the interval as well */
    bool spares;       /* surely, and no free segments have to be given back for it, which takes time */
    uint64_t beyond;   /* bytes left over, or missing */
    const char *left;  /* words for `beyond` where it is not free memory of the device; else NULL */
} framework_result;

const framework_term *framework_largest(const framework_result *r);
void framework_add_term(framework_result *r, const char *name, uint64_t bytes); /* none where bytes is 0 */
void framework_add_fact(framework_result *r, const framework_fact *f);
/* Sets the layers from FRAMEWORK_RESERVED on and decides whether they fit; for frameworks that allocate what
 * they reserve from the device. */
void framework_place(const framework_subject *q, framework_result *r, const interval *reserved);

/* ---- settings and changes of them ---- */

/* Settings that every framework has under some name: the ones that --solve varies. */
typedef enum { FRAMEWORK_BATCH, FRAMEWORK_CONTEXT, FRAMEWORK_GPUS } framework_variable;

enum { FRAMEWORK_CHANGE_BYTES = 96 };
typedef struct {
    /* Changes the settings and writes the change as options. False: they have that value already, or the
     * change does not apply. */
    bool (*apply)(const framework_subject *q, framework_settings *s, char text[FRAMEWORK_CHANGE_BYTES]);
    /* The same change in the framework's own words, after apply; NULL: the options are its own words. */
    void (*own)(const framework_settings *s, char text[FRAMEWORK_CHANGE_BYTES]);
    bool alone; /* not combined with others: another change covers it, or it changes the result of training */
    bool repeats; /* may be applied several times; the last text counts */
    bool alters;  /* changes what is trained, or its numerics */
} framework_change;

typedef struct {
    const char *name, *title;        /* "hf"; for people */
    const framework_change *changes; /* cheapest first; those that alter training last */
    uint32_t change_count;
    status (*check)(const framework_subject *q,
                    const framework_settings *s); /* STATUS_INVALID: contradictions */
    status (*estimate)(const framework_subject *q, const framework_settings *s, framework_result *r);
    /* A line for people on the settings, and remarks on the device. */
    void (*describe)(const framework_subject *q, const framework_settings *s, const framework_result *r,
                     text *out);
    int64_t *(*variable)(framework_settings *s, framework_variable v); /* NULL: there is no such setting */
    /* The steps that the estimate is of, as they go; NULL: it plays none. */
    status (*watch)(const framework_subject *q, const framework_settings *s, tape_watcher *w);
} framework;

extern const framework framework_hf, framework_pytorch, framework_vllm, framework_llama_cpp, framework_litgpt,
    framework_llmc, framework_megatron, framework_sglang, framework_trtllm, framework_titan,
    framework_recorded;                          /* of a recorded step, which nobody asks for by name */
const framework *framework_of(framework_name n); /* NULL: snug */

/* ---- advice ---- */

typedef struct {
    char text[4 * FRAMEWORK_CHANGE_BYTES]; /* the changes as options; "": no known change makes it fit */
    bool alters;                           /* one of the changes alters training */
    framework_settings settings;           /* with those changes */
    framework_result result;
} framework_advice;

/* The first change that makes it fit alone; else several, added one after the other. Changes that leave
 * training as it is come first, then those that alter it, then more devices. */
status framework_advise(const framework *f, const framework_subject *q, const framework_settings *s,
                        framework_advice *out);
/* The same, but the result must have room to spare (framework_has_room). */
status framework_advise_room(const framework *f, const framework_subject *q, const framework_settings *s,
                             framework_advice *out);
/* Of all combinations that framework_advise tries, the one that misses the device by the fewest bytes; "": no
 * change helps. */
status framework_nearest(const framework *f, const framework_subject *q, const framework_settings *s,
                         framework_advice *out);

/* Fits by the upper end of the interval too, with nothing given back, and by the likely value with 2 % to
 * spare. */
bool framework_has_room(const framework_subject *q, const framework_result *r);

/* A change (framework_change.apply): the longest context that fits, in steps of 256; false: none does. */
bool framework_shorten(const framework *f, const framework_subject *q, framework_settings *s,
                       char out[FRAMEWORK_CHANGE_BYTES]);
/* Likewise twice, four times ... as many devices, at most 1024. */
bool framework_spread(const framework *f, const framework_subject *q, framework_settings *s,
                      char out[FRAMEWORK_CHANGE_BYTES]);
