/* Feeds the steps of a run from its data: the loader's batches, and the samples of validation. */
#pragma once

#include "data/loader.h"
#include "exec/runner.h"
#include "train/decision.h"

typedef struct {
    const setup *setup;
    exec *exec;
    runner run;
} feed;

void feed_open(feed *f, const setup *s, const decision *d, exec *e);

/* One optimizer step: all micro-batches of the batch. Returns the batch's loss. */
double feed_step(feed *f, const loader_batch *batch, int64_t step, double learning_rate);

/* As runner_find_fault, on the same batch. */
bool feed_find_fault(feed *f, const loader_batch *batch, int64_t step, double learning_rate,
                     exec_fault *fault);

/* As runner_evaluate, over the run's validation samples. */
status feed_evaluate(feed *f, const volatile sig_atomic_t *stop, double *loss, bool *whole);
