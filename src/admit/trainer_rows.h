/* The programs that trainer.c knows, as data: how each is called, and one row for each name of its options.
 */
#pragma once

#include <stddef.h>

#include "admit/trainer.h"

/* What an option means; those that say a number or a word go to the member at `offset`. */
typedef enum {
    MODEL,
    COUNT,  /* an int64_t */
    WORD,   /* text of `room` bytes */
    YES,    /* a bool */
    LENGTH, /* tokens, of samples at most */
    CHECKPOINT,
    REENTRANT, /* which kind of them */
    TUNING,    /* LLaMA-Factory's: full, lora */
    TARGETS,   /* products with adapters: all, or names */
    BITS,      /* of weights, as a number */
    STAGE,     /* LLaMA-Factory's: pt and sft learn from texts */
    HALF_TOO,  /* products and weights in 16 bits */
    MIXED,     /* bf16, fp16: autocast */
    HALF,      /* the same where weights are 16 bits too */
    TYPE,      /* by name: bfloat16, float32, auto */
    PRECISION, /* Lightning's words */
    PACKED,
    FOUR_BITS,
    ADAPTER, /* lora, qlora */
    SHARDS,  /* transformers' --fsdp */
    DEEPSPEED,
    CONFIG,    /* a file of the same options */
    COMPONENT, /* torchtune's name of a model */
    PASS,      /* an option of `estimate` with the same meaning; `ours` is its name */
    PASS_YES,
    LLMC_MODEL,
    LLMC_LEVEL,
    HIDES, /* changes bytes by no rule that is here; unless it says no */
    PLACE, /* by no rule that is here unless it begins with `ours`: a device, an engine's part */
    NEW    /* weights are made anew */
} meaning;

typedef struct {
    const char *name;
    meaning means;
    size_t offset, room;
    const char *ours;
} trainer_row;

/* Whose options a program takes. */
typedef enum {
    TRANSFORMERS,
    AXOLOTL,
    TORCHTUNE,
    NANOGPT,
    LLMC,
    VLLM,
    SGLANG,
    TRTLLM,
    LITGPT,
    SNUG
} trainer_family;

struct trainer {
    const char *const *names; /* of programs: "vllm", "run_clm.py" */
    const char *first;        /* the word that must follow: "serve"; NULL: any */
    const char *title, *framework;
    trainer_family family;
    bool one_hyphen;  /* options are written -b 4 */
    bool assignments; /* key=value */
    bool own;         /* somebody's own program may be called so */
    bool fixed, checkpoints, decides_checkpoints, half, takes_words, judges, trains_if_told;
    int64_t batch; /* what it takes where nothing is said; 0: it must be said */
};

/* Ends with a row without a name. */
const trainer_row *trainer_rows(const trainer *t);
