/* Feeds the steps of a run from its data: the loader's batches, and the samples of validation. */
#pragma once

#include "data/loader.h"
#include "exec/runner.h"
#include "run/decision.h"

typedef struct {
    const setup *setup;
    exec *exec;
    runner run;
} feed;

status feed_open(feed *f, const setup *s, const decision *d, exec *e); /* all of them must outlive it */
void feed_close(feed *f);

/* One optimizer step: all micro-batches of the batch. f->run has its loss and the norm of its gradients. */
status feed_step(feed *f, const loader_batch *batch, int64_t step, double learning_rate);

/* As runner_find_fault, on the same batch. */
status feed_find_fault(feed *f, const loader_batch *batch, int64_t step, double learning_rate,
                       exec_fault *fault, bool *found);

/* As runner_evaluate, over the run's validation samples. */
status feed_evaluate(feed *f, const volatile sig_atomic_t *stop, runner_verdict *v);
