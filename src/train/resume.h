/* Where a run begins: at the start, or at a checkpoint, found by looking at those that are there; and how it
 * is planned then: by the choices that the checkpoint keeps, if they still fit. */
#pragma once

#include "io/lock.h"
#include "train/checkpoint.h"

typedef struct {
    lock lock;                          /* of options.out, while the run goes on */
    identity run;                       /* what is to be run */
    int64_t step;                       /* done already; 0: begins at the start */
    char folder[CHECKPOINT_PATH_BYTES]; /* the checkpoint; empty at the start */
    trainer_state state;                /* what it says */
    char said[1024];                    /* sentences for people, a line each; empty: nothing to say */
} resume;

/* Locks options.out if it is there already: one that another run writes to is STATUS_INVALID.
 * Without options.resume a folder that holds a run or a model already is refused (train/occupied.h). With it
 * the newest valid checkpoint is taken: of options.resume_from (a folder of a run, or one checkpoint), which
 * must have one, or else of options.out, where a run that never came to a checkpoint begins at the start.
 * What was passed over for being damaged is said. Another model, other data or other options that matter are
 * STATUS_INVALID. End with resume_close, also after a failure. */
status resume_find(const setup *s, resume *r);
void resume_close(resume *r);

/* Makes options.out and locks it, unless resume_find did; clears what a killed run left half made, and what
 * options.overwrite gives up. */
status resume_claim(const setup *s, resume *r);

/* Does the checkpoint lie in this run's folder (may be NULL)? */
bool resume_is_of(const resume *r, const char *out);

/* As decision_make, with the choices of the checkpoint for everything that the user does not pin. Where they
 * do not fit, what is EXACT is chosen anew, and where that is not enough everything but what is LOSSY:
 * r->said says which. */
status resume_decide(setup *s, resume *r, decision *d);
