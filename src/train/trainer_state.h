/* checkpoint-N/trainer_state.json: where a run stood, what run it is, how it was planned, and what the other
 * files of the checkpoint must be. docs/formats.md tells it key by key. */
#pragma once

#include "io/safetensors.h"
#include "io/shards.h"
#include "run/identity.h"

/* Written as 1 where there is one file of each kind, which earlier versions read. */
enum { TRAINER_STATE_FORMAT = 2, TRAINER_STATE_PRODUCTS_BYTES = 96 };

/* The safetensors files of one kind beside it, and what they must be. */
typedef struct {
    int files;                       /* 0: one */
    io_sum sums[SHARDS_MOST], index; /* index: where there are several */
} trainer_files;

typedef struct {
    int64_t step;     /* optimizer steps done */
    uint64_t samples; /* used so far: the place in the order of the data */
    identity run;
    int64_t micro_batch;
    struct {
        char setting[PASS_SETTING_BYTES]; /* empty: off */
        pass_class class;
    } passes[PASS_MAX];                          /* by pass, in the order of pass_table */
    char products[TRAINER_STATE_PRODUCTS_BYTES]; /* run/products.h, where that is neither "" nor widened */
    trainer_files model, optimizer;
} trainer_state;

static inline int trainer_files_count(const trainer_files *f) { return f->files > 1 ? f->files : 1; }

/* What the files of a kind are called (io/shards.h). Those of weights: where adapters were trained, of those
 * alone. */
const char *trainer_state_weights(const trainer_state *t);
extern const char trainer_state_optimizer[];

/* Writes it, with a digest of its own at the end. */
status trainer_state_write(const char *path, const trainer_state *t);

/* STATUS_INVALID with a sentence for whatever is wrong with the file, also a single changed byte. */
status trainer_state_read(const char *path, trainer_state *t);
