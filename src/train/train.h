/* Trains by a decision: one allocation, then steps. The library prints nothing; who watches gets calls. */
#pragma once

#include <signal.h>

#include "exec/lifetimes.h"
#include "exec/runner.h"
#include "train/resume.h"

typedef struct {
    int64_t step, steps; /* finished; of */
    double loss, norm;   /* norm NAN: not taken */
    double learning_rate;
    double loss_scale;        /* of gradients, after this step; 0: they are not scaled */
    double seconds;           /* of this step */
    double tokens_per_second; /* or images; NAN: the clock has not moved */
    bool images;              /* which it is */
    double peak_share; /* arithmetic of the step's kernels, recomputation included, over what the rate of
                          products would allow in its time */
    double seconds_left;
    uint64_t resident_bytes, planned_bytes, budget_bytes;
} train_progress;

/* How a rank of several kept to its plan. */
typedef struct {
    char host[64];
    uint64_t planned_bytes, peak_bytes; /* of the process; from the operating system */
    uint64_t runtime_bytes;             /* resident beside the pool, before the first step */
    bool equal;                         /* planned and measured bytes of every category but runtime are */
} train_rank;

/* What was measured. */
typedef struct {
    int64_t steps, first; /* done altogether; of these, before this start */
    double *losses;       /* by step; NAN where an earlier start of the run has left no record */
    struct {
        int64_t step;
        double loss;
    } * evaluations;
    uint32_t evaluation_count;
    double accuracy, f1; /* of this start's last validation; NAN: none, or the model has no classes */
    struct {
        int64_t step, since; /* -1: there is none; validations after it */
        double loss;
    } best;                       /* validation */
    bool stopped_early;           /* after so many without a new best as options.patience */
    double seconds, step_seconds; /* of all steps; median of a step */
    double undisturbed_seconds;   /* median of a step's programs where they had the processors; 0: too few */
    double own_seconds;           /* of a step if it had them all the time; 0: no steps */
    double processor_share;       /* part of the processor time that steps asked for and had; 0: no steps */
    double tokens_per_second;
    exec_measured memory;         /* by category, live */
    uint64_t runtime_bytes;       /* resident beside the pool, before the first step */
    uint64_t resident_peak_bytes; /* of the whole process, from the operating system */
    train_rank *ranks;            /* of a run of several that came to its end; else NULL */
    int rank_count;
    exec_lives *lives; /* by program of the plan: what was observed; NULL: it was not asked for */
} train_result;
void train_result_close(train_result *r);

/* Where in options.out the model of the best validation goes. */
#define TRAIN_BEST "best"

struct pace_fall; /* train/pace.h */

/* Who watches a run. Each call may be NULL. */
typedef struct {
    void *context;
    void (*started)(void *context, const setup *s, const decision *d);
    void (*stepped)(void *context, const train_progress *p);
    void (*slowed)(void *context, int64_t step,
                   const struct pace_fall *fall); /* steps take longer than before */
    void (*evaluated)(void *context, int64_t step, const runner_verdict *v, int64_t samples);
    /* The run is over, finished or not, and `r` is complete. Here the caller writes what it writes of a run;
     * only then does the run's history say that it has ended. A failure fails the run. */
    status (*ended)(void *context, const train_result *r);
    volatile sig_atomic_t *stop; /* set to 1 by a signal handler: finish the step, save, return INTERRUPTED */
    bool lives;                  /* the result is to have what was observed: train_reserve_lives has room */
} train_observer;

/* Adds what train_result.lives will take to the plan's reserve for tables, where the budget has room for it;
 * false, with nothing added, where it has not. */
bool train_reserve_lives(const setup *s, decision *d);

/* Runs what is left of the steps after `from` (as resume_find left it), evaluates, and writes to options.out:
 * train/journal.h, checkpoints, and at the end or when stopped the model as a Hugging Face directory
 * (run.json is the report's: report/ stands above train/). STATUS_INTERRUPTED after *observer->stop, with a
 * checkpoint of the last step. Whatever fails, the last checkpoint stays as it is. The result is valid (as
 * far as it got) in any case. */
status train_run(const setup *s, const decision *d, resume *from, const train_observer *o, train_result *r);
