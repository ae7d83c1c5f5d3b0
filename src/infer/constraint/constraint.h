/* Answers that are JSON of a schema: which tokens may come next, as a mask over the vocabulary, and what the
 * state is behind the one that came. */
#pragma once

#include "infer/constraint/machine.h"
#include "infer/constraint/vocabulary.h"

/* Of one text. */
typedef struct {
    const constraint_words *words;
    schema schema;
    machine_state state;
    machine_frame frames[MACHINE_KEPT];
    uint32_t frame_count;
} constraint;

/* Before the first token of an answer; the schema has been read. */
void constraint_begin(constraint *c, const constraint_words *words);

/* Work space of a mask, of each thread. */
typedef struct {
    machine_state states[VOCABULARY_LONGEST + 1]; /* by bytes of a token */
    uint32_t frame_counts[VOCABULARY_LONGEST + 1];
    machine_frame frames[MACHINE_FRAMES];
    machine machine;
    uint64_t bits[]; /* by token */
} constraint_mask;
uint64_t constraint_mask_bytes(int64_t vocabulary);

/* The tokens behind which the answer can still become a value of the schema, and those that end it where it
 * is one; in work->bits. */
void constraint_allow(const constraint *c, constraint_mask *work);

/* A token that was allowed has come. */
void constraint_take(constraint *c, int32_t id);
/* The answer is a value, and nothing may follow. */
bool constraint_over(const constraint *c);
