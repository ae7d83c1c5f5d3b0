/* Runs the steps of a run: writes a batch to the inputs of the programs and runs them in their order.
 * Training, profiling and the tests share it. It does not know where samples come from: the caller has a
 * batch in memory, and brings samples of validation one by one. */
#pragma once

#include <signal.h>

#include "base/philox.h"
#include "exec/exec.h"

/* Where one program reads its inputs; NULL: it does not read this one. */
typedef struct {
    void *field[MODEL_MAX_FIELDS], *whole[MODEL_MAX_FIELDS]; /* of this micro-batch; of the whole batch */
    float *loss_scale, *learning_rate;
    int32_t *first_row;
    philox_key *key;
} runner_inputs;

/* A step is `accumulate` calls of equally many samples and one call of `last`. Validation is `eval_calls`
 * calls of `eval_batch` samples and one of `eval_rest`. */
typedef struct {
    int64_t batch, context;
    int64_t accumulate, last;
    int64_t eval_batch, eval_calls, eval_rest;
    uint64_t seed; /* of random masks */
} runner_sizes;

typedef struct {
    exec *exec;
    runner_sizes sizes;
    model_field fields[MODEL_MAX_FIELDS];
    uint32_t field_count;
    runner_inputs programs[PROGRAM_COUNT];
    float *loss;       /* the sum of the losses of all micro-batches */
    const float *norm; /* of all gradients; NULL: not computed */
    bool scaled;       /* gradients are scaled (f16): a step in which they are not finite is skipped */
} runner;

/* Looks up the inputs of each program, once. */
void runner_open(runner *r, exec *e, const model *m, const runner_sizes *sizes);

/* Bytes of one sample's field i. */
uint64_t runner_field_bytes(const runner *r, uint32_t i);

/* A batch in memory, field after field. */
typedef struct {
    const void *fields[MODEL_MAX_FIELDS];
    uint64_t samples, counted_labels;
    int64_t step; /* of the run, from 0 */
    double learning_rate;
} runner_batch;

/* Samples [first, first + count) of the batch become the inputs of program k. */
void runner_hand_in(runner *r, program_kind k, const runner_batch *batch, int64_t first, int64_t count);

/* One optimizer step: all micro-batches of the batch. Returns the batch's loss. */
double runner_step(runner *r, const runner_batch *batch);

/* Finds the kernel whose result is not finite by computing the step again, kernel by kernel. The step must
 * not have changed any weight. False: all is finite. Persistent tensors are spoilt afterwards. */
bool runner_find_fault(runner *r, const runner_batch *batch, exec_fault *fault);

/* Who brings samples of validation. `read` writes field i to to[i], which is NULL where the program does not
 * read it, and adds the number of counted labels to *counted. */
typedef struct {
    status (*read)(void *context, uint64_t sample, void *const to[], uint64_t *counted);
    void *context;
    const volatile sig_atomic_t *stop; /* may be NULL */
} runner_samples;

/* The mean loss over the validation samples, by forward programs. If *stop becomes nonzero on the way, *whole
 * is false and there is no loss. */
status runner_evaluate(runner *r, const runner_samples *samples, double *loss, bool *whole);
