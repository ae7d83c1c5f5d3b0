/* What a command trains or serves, as far as the command says it: one place for what tools call by many
 * names. From it come the options of `snug estimate` that say the same. */
#pragma once

#include "base/text.h"

enum { RECIPE_WORD_BYTES = 512, RECIPE_MOST_PASSED = 48 };

typedef enum { RECIPE_TYPES_UNSAID, RECIPE_F32, RECIPE_AUTOCAST, RECIPE_HALF } recipe_types;
typedef enum {
    RECIPE_SHARD_UNSAID,
    RECIPE_DDP,
    RECIPE_ZERO1,
    RECIPE_ZERO2,
    RECIPE_ZERO3,
    RECIPE_FSDP
} recipe_shard;

typedef struct {
    const char *program;           /* "transformers' Trainer"; of the program */
    const char *framework;         /* of `estimate` */
    char model[RECIPE_WORD_BYTES]; /* "": none is named */
    char optimizer[64], attention[64], targets[RECIPE_WORD_BYTES];
    int64_t batch, accumulate, context; /* 0: not said */
    int64_t rank, base_bits, processes, labels;
    recipe_types types;
    recipe_shard shard;
    bool trains;                  /* it is told to */
    bool judges;                  /* its model ends in classes of texts, not in a vocabulary */
    bool half_weights;            /* weights are loaded in 16 bits, whatever products run in */
    bool f32_weights;             /* said so, or made anew */
    bool fixed;                   /* every sample has `context` tokens: they are packed or cut so */
    int64_t layers, heads, width; /* of nanoGPT, which names no model */
    bool all_products;            /* adapters stand beside every product */
    char file[128];               /* the program's own name, for sentences */
    bool reentrant;               /* checkpoints, of the older kind */
    const char *host_keeps;       /* of `estimate`; NULL: nothing */
    bool checkpointing, checkpointing_said, fused_loss, compiled, adapters, expandable;
    char passed[RECIPE_MOST_PASSED][128]; /* options of `estimate` as they are */
    uint32_t passed_count;
    text unseen; /* sentences on what could not be seen, one a line: nothing is refused where there are any */
} recipe;

/* One more sentence, kept once. */
void recipe_unseen(recipe *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void recipe_close(recipe *r);

/* An option as it is. */
void recipe_pass(recipe *r, const char *name, const char *value);

/* It answers requests, and learns nothing. */
bool recipe_serves(const recipe *r);

/* "true", "1", "yes", "" (a bare flag): true. */
bool recipe_yes(const char *value);
/* A whole number of at least 1; 0: it is none. */
int64_t recipe_count(const char *value);

/* How a recipe is read where it leaves things open. The least that it can mean: samples that may be shorter,
 * weights that may be loaded in 16 bits; with the libraries of today, or with those of 2023, which did with
 * less in places (experts in 4 bits). */
typedef enum { RECIPE_LIKELY, RECIPE_LEAST, RECIPE_LEAST_OLDER } recipe_reading;

enum { RECIPE_OPTIONS = 96 };
typedef struct {
    char *words[RECIPE_OPTIONS];
    uint32_t count;
    text room;
} recipe_options;

/* The options of `snug estimate` for `gpus` devices. False: no memory. End with recipe_options_close. */
bool recipe_estimate(const recipe *r, int64_t gpus, recipe_reading as, recipe_options *out);
void recipe_options_close(recipe_options *o);
