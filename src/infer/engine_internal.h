/* What the parts of the engine share. */
#pragma once

#include "infer/blocks.h"
#include "infer/engine.h"

/* A place for a text. Its line of the table has `blocks` blocks. */
typedef struct {
    bool used, going, paused;
    int32_t *ids;        /* prompt and what was drawn; room for text_length + 1 */
    int64_t count, done; /* ids; of these in the cache */
    int64_t most;        /* ids at which it ends */
    int64_t blocks;
    int64_t came; /* its turn among all */
    sample_options sample;
    void *context;
} engine_text;

/* Values of a program that the host writes and reads. */
typedef struct {
    exec_value tokens, position, text, slot, table, wanted, logits;
} engine_program;

/* What a step hands in, by row. */
typedef struct {
    int32_t *tokens, *position, *text, *slot, *wanted;
    int64_t count, drawn; /* rows; those of them that a token is drawn from, in `wanted` */
} engine_rows;

struct engine {
    engine_options options;
    const model_folder *folder;
    engine_sizes sizes;
    int64_t rows[COMPOSE_MOST_ROWS]; /* of the programs */
    uint32_t program_count;
    int64_t text_blocks; /* of a line of the table */
    plan plan;
    exec *exec;
    engine_program programs[COMPOSE_MOST_ROWS];
    blocks blocks;
    int32_t *table;   /* (texts, text_blocks) */
    int32_t *numbers; /* that the arrays of `step` are parts of */
    int32_t *ids;     /* of all texts */
    engine_text *texts;
    engine_rows step;
    uint8_t *seen; /* by text and token: the text has it; NULL: nobody asks */
    void *sampling;
    int64_t came;
    engine_stats stats; /* what is counted; what there is now is looked up */
};
