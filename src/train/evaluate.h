/* Validation alone: a setup that is not for training, and its decision. Forward programs and the weights are
 * all there is; no gradient, nothing saved for one, no read-ahead. */
#pragma once

#include "train/train.h"

typedef struct {
    train_result run; /* its memory; no steps and no losses */
    double loss;      /* mean over the counted labels; of scores the mean squared error */
    double accuracy;  /* the part of samples whose class is told right; NAN: the model has no classes */
    double f1;        /* the mean over the classes; NAN likewise */
    int64_t samples;
    double seconds;
    double tokens_per_second;
} evaluate_result;

/* Gets the state of a run whose loss is known, before it goes. */
typedef struct {
    void *context;
    status (*done)(void *context, const plan *p, exec *e);
} evaluate_observer;

/* STATUS_INVALID for data and weights as train_run does; STATUS_FAILED with a loss that is not finite. The
 * result is valid (as far as it got) in any case. Writes nothing. `o` may be NULL. */
status evaluate_run(const setup *s, const decision *d, const evaluate_observer *o, evaluate_result *r);
