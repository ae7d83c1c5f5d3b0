/* Continues texts with a trained model, side by side in the steps of an engine (infer/engine.h), all of it
 * planned before anything is allocated. What is drawn for a text depends on its prompt, the options and the
 * seed, never on its neighbours or on how many there are at once: a smaller budget gives fewer at once and
 * the same texts.
 *
 * A model that answers texts reads a prompt first, as a whole and once; what is added are the tokens of an
 * answer, behind the one that answers begin with. */
#pragma once

#include "chain/compose.h"
#include "infer/language.h"
#include "infer/sample.h"
#include "models/families.h"

typedef enum {
    GENERATE_LENGTH,  /* as many tokens as were asked for */
    GENERATE_CONTEXT, /* the model knows no more positions */
    GENERATE_STOP,    /* a stop string came */
    GENERATE_OVER,    /* the model has said that the text ends */
} generate_end;
const char *generate_end_name(generate_end e); /* "length", "context", "stop", "end" */

typedef struct {
    const char *directory; /* Hugging Face model directory */
    const char *adapter;   /* a folder with what was trained beside its weights; NULL: none */
    dtype products;        /* as model_folder_open has it */
    const char *const *prompts;
    language *language; /* what tokens are in text; NULL: bytes */
    bool bytes;         /* that is meant, also where the directory has a tokenizer */
    uint32_t prompt_count;
    /* Prompts one after the other, where what was said is part of the next one: instead of `prompts`, of
     * which there are none then. Each stays until the next call; NULL ends it. Its longest has
     * `prompt_bytes`; it is number 0, as `said` and `ended` have it, and its text may be as long. What a
     * prompt begins with as the text before did is not computed again. */
    status (*next)(void *context, const char **prompt);
    uint64_t prompt_bytes;
    uint64_t held_bytes; /* memory of the caller's own, a part of the plan */
    int64_t tokens;      /* to add to each; fewer where the context ends */
    sample_options sample;
    const char *const *stops; /* a text ends before the first of these strings that it would have */
    uint32_t stop_count;
    const char *device; /* that computes: device_find; NULL: auto */
    int threads;        /* 0: all there are */
    uint64_t memory;    /* budget in bytes; 0 or UINT64_MAX: unlimited */
    /* Called for what is added to a text, as soon as it is known to belong to it, and at its end. May be
     * NULL. */
    void (*said)(void *context, uint32_t prompt, const char *bytes, size_t count);
    void (*ended)(void *context, uint32_t prompt, generate_end how);
    void *context;
} generate_options;

typedef struct {
    int64_t prompt_tokens, new_tokens;
    generate_end end;
} generate_text;

typedef struct {
    generate_text *texts; /* by prompt; of prompts one after the other the last one's */
    uint32_t at_once;     /* texts side by side */
    int64_t prompt_tokens, new_tokens;
    int64_t known_tokens;               /* of prompts one after the other: were not computed again */
    double seconds_prompt, seconds_new; /* while no text had a new token yet, and of reading prompts that are
                                             answered; after that */
    uint64_t planned_bytes, resident_peak_bytes;
    uint64_t language_bytes; /* of planned_bytes: what makes text into tokens and back */
    uint32_t unconfirmed;    /* of the plan (run/unconfirmed.h), */
    uint32_t capability;     /* and of its device; 0: it is no GPU */
    int64_t learned;         /* positions that its folder says were learned; 0: all, as far as is known */
} generate_result;

/* STATUS_INVALID for a wrong directory, option or prompt, STATUS_NO_FIT when the plan is beyond the budget:
 * both before the first token. STATUS_FAILED when the model's numbers are not finite. Close the result in any
 * case. */
status generate_run(const generate_options *o, generate_result *r);
void generate_result_close(generate_result *r);
