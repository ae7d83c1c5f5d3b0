/* Runs the steps of a run: writes a batch to the inputs of the programs and runs them in their order.
 * Training, profiling and the tests share it. It does not know where samples come from: the caller has a
 * batch in memory, and brings samples of validation one by one. */
#pragma once

#include <signal.h>

#include "base/philox.h"
#include "exec/exec.h"

/* What one program reads; bytes 0: it does not read this one. */
typedef struct {
    exec_value field[MODEL_MAX_FIELDS], whole[MODEL_MAX_FIELDS]; /* of this micro-batch; of its whole unit */
    exec_value loss_scale, learning_rate, first_row, key;
    exec_value hits,
        logits; /* kept: of how many samples a head of classes tells the right one; what it says */
} runner_inputs;

typedef struct {
    exec *exec;
    const plan *plan;
    uint64_t seed;       /* of random masks */
    int64_t context;     /* rows of one sample */
    int64_t unit;        /* samples whose sums stay together, which "whole" inputs are of; 0: the batch */
    int64_t eval_unit;   /* samples of validation whose losses stay together; 0: all of them */
    int64_t ranks, rank; /* that have every ranks-th unit; 0: one */
    model_field fields[MODEL_MAX_FIELDS];
    uint32_t field_count;
    runner_inputs *programs; /* by plan->programs */
    exec_value total, norm;  /* the sum of all micro-batches' losses; of all gradients */
    exec_value of_unit;      /* the sum of a unit's losses, where there are units */
    exec_value scale;        /* that gradients have (f16); then a step where they overflow is skipped */
    double loss;             /* of the last step */
    double last_norm;        /* of all gradients; NAN: not computed */
    double last_scale;       /* that gradients have from now on; 0: none */
} runner;

/* Looks up the inputs of each program, once. The plan must outlive it. Of a run with units r->unit is to be
 * set behind it. */
status runner_open(runner *r, exec *e, const plan *p, const model *m, int64_t context, uint64_t seed);
void runner_close(runner *r);

/* Bytes of one sample's field i. */
uint64_t runner_field_bytes(const runner *r, uint32_t i);

/* A batch in memory, field after field. */
typedef struct {
    const void *fields[MODEL_MAX_FIELDS];
    uint64_t samples, counted_labels;
    int64_t step; /* of the run, from 0 */
    double learning_rate;
} runner_batch;

/* Samples [first, first + count) of the batch become the inputs of a program. */
status runner_hand_in(runner *r, uint32_t which, const runner_batch *batch, int64_t first, int64_t count);

/* One optimizer step: all micro-batches of the batch. Sets r->loss and r->last_norm. */
status runner_step(runner *r, const runner_batch *batch);

/* Finds the kernel whose result is not finite by computing the step again, kernel by kernel. The step must
 * not have changed any weight. *found false: all is finite. Persistent tensors are spoilt afterwards. All
 * ranks call it, and each says what it has met itself. */
status runner_find_fault(runner *r, const runner_batch *batch, exec_fault *fault, bool *found);

/* Who brings samples of validation. `read` says where the fields of one are, which lasts until its next call,
 * and adds the number of its counted labels to *counted. */
typedef struct {
    status (*read)(void *context, uint64_t sample, const void *fields[], uint64_t *counted);
    void *context;
    const volatile sig_atomic_t *stop; /* may be NULL */
} runner_samples;

/* Runs each program of validation once, on zeros: to see what memory they take. */
status runner_rehearse_validation(runner *r);

/* What validation says. */
typedef struct {
    double loss;     /* the mean over the counted labels */
    double accuracy; /* the part of the samples whose class is told right; NAN: the model has no classes */
    double f1;       /* the mean over the classes (exec/judged.h); NAN as well */
    bool whole;      /* false: it was stopped, and there is nothing else */
} runner_verdict;

/* The verdict over the validation samples, by forward programs; ends early where *stop becomes nonzero. All
 * ranks call it: each validates its units, and all have one verdict. */
status runner_evaluate(runner *r, const runner_samples *samples, runner_verdict *v);
