/* What generating (generate.c) and its steps (generate_rows.c) share. */
#pragma once

#include "infer/generate.h"
#include "infer/model_folder.h"
#include "infer/stop.h"

/* The ids of a prompt. */
typedef struct {
    const int32_t *ids;
    int64_t count;
} prompt;

/* One text that is being continued: its place is the language's. */
typedef struct {
    struct generation *of; /* NULL: nobody is there */
    uint32_t number;       /* its place among the prompts */
    bool going;
    stop_watch stops;
} row;

typedef struct generation {
    const generate_options *options;
    generate_result *result;
    const model *model;
    int64_t context;              /* that it knows */
    row rows[MODEL_MOST_DECODED]; /* by place */
    language bytes;               /* where no other is given */
    language *language;
    prompt *prompts;
    uint32_t prompt_count; /* at once: one where they come one after the other */
    uint64_t held_most;    /* by the language, as planned */
    int64_t new_before;    /* new tokens of texts before these */
} generation;

/* What is held beside the engine or the plan: texts, what is gathered of them, the language. */
uint64_t generate_held(const generation *g);
/* The ids of prompt i. */
status generate_read_prompt(generation *g, uint32_t i, const char *words);
/* All of them, or as they come; then the language is known, and what it holds. */
status generate_read_prompts(generation *g);

/* A text begins at `place`; `ids` is what the language is to know before, its prompt or nothing. */
status generate_begin_text(generation *g, int32_t place, uint32_t number, const prompt *ids);
/* What was drawn becomes text, or its end: an engine_drew, whose context is the row. */
status generate_take(void *row, int32_t id, bool *over);
status generate_end_text(row *x, generate_end how);

/* The steps, from a model whose files are known. */
status generate_rows(generation *g, const model_folder *f);
