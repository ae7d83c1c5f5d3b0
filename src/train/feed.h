/* Hands a batch to the programs: finds once where each program wants its inputs, then copies rows. */
#pragma once

#include <signal.h>

#include "base/philox.h"
#include "data/loader.h"
#include "exec/exec.h"
#include "train/decision.h"

/* The input places of one program; NULL where it does not read them. */
typedef struct {
    void *field[MODEL_MAX_FIELDS], *whole[MODEL_MAX_FIELDS]; /* this micro-batch; the whole batch */
    float *loss_scale, *learning_rate;
    int32_t *first_row;
    philox_key *key;
} feed_inputs;

typedef struct {
    const setup *setup;
    const compose_split *split;
    exec *exec;
    model_field fields[MODEL_MAX_FIELDS];
    uint32_t field_count;
    feed_inputs programs[PROGRAM_COUNT];
    float *loss;       /* the summed loss */
    const float *norm; /* of all gradients; NULL: not taken */
    bool scaled;       /* gradients are; steps in which they are not finite are skipped */
} feed;

void feed_open(feed *f, const setup *s, const decision *d, exec *e);

/* One optimizer step: all micro-batches of the batch. Returns the batch's loss. */
double feed_step(feed *f, const loader_batch *batch, int64_t step, double learning_rate);

/* Where a step went wrong: computes it again, kernel by kernel, after one that changed no weight. False where
 * all is finite. What is persistent is spoilt afterwards. */
bool feed_find_fault(feed *f, const loader_batch *batch, int64_t step, double learning_rate,
                     exec_fault *fault);

/* Mean loss over the validation samples, forward only. `*whole` is false, and there is no loss, when *stop
 * (may be NULL) became other than 0 in the meantime. */
status feed_evaluate(feed *f, const volatile sig_atomic_t *stop, double *loss, bool *whole);
