/* Where a run begins: at the start, or at the newest valid checkpoint. From a checkpoint it is planned with
 * the choices that the checkpoint keeps, if they still fit. */
#pragma once

#include "io/lock.h"
#include "train/checkpoint.h"

typedef struct {
    lock lock;                          /* of options.out, while the run goes on */
    identity run;                       /* of the run that the options ask for */
    bool replaces;                      /* its model will replace the one that it began with */
    bool parted;                        /* ranks have found that they don't go on from one checkpoint */
    int64_t step;                       /* steps that are done already; 0: it begins at the start */
    char folder[CHECKPOINT_PATH_BYTES]; /* the checkpoint; empty at the start */
    trainer_state state;                /* what it says */
    char said[1024];                    /* sentences for people, a line each; empty: nothing to say */
} resume;

/* Locks options.out if it exists; STATUS_INVALID if another run writes to it. Without options.resume, a
 * folder that holds a run or a model is refused (train/occupied.h). With it the newest valid checkpoint is
 * taken:
 * - of options.resume_from (a run's folder, or one checkpoint), which must have one; if this very run has
 * gone on from there in options.out and has a later one there, that one;
 * - without resume_from, of options.out; a run that has saved none begins at the start.
 * Damaged checkpoints are passed over, and r->said says so. All ranks call it: each looks at some of a
 * checkpoint's files, so that all of them are looked at once. STATUS_INVALID where the run is another one:
 * another model, other data or other options that matter. End with resume_close, also after a failure. */
status resume_find(const setup *s, resume *r);
void resume_close(resume *r);

/* Makes options.out and locks it, unless resume_find did. Nothing in it is changed. */
status resume_hold(const setup *s, resume *r);

/* The same, and removes what a killed run has left half made, the
 * report of the run that goes on now, and with options.overwrite what was there. */
status resume_claim(const setup *s, resume *r);

/* Does the checkpoint lie in this run's folder (may be NULL)? */
bool resume_is_of(const resume *r, const char *out);

/* As decision_make, with the choices of the checkpoint for everything that the user does not pin. Where they
 * do not fit, EXACT settings are chosen anew; where that is not enough, all but LOSSY ones, unless
 * options.exact forbids it; then also what options.allow names, if the checkpoint has values for it. r->said
 * says what was done. */
status resume_decide(setup *s, resume *r, decision *d);

/* Adds a line to r->said. */
void resume_say(resume *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
