/* Where a run stands, seen from another process: from its metrics, its lock and its checkpoints. Nothing is
 * written and the run notices nothing. */
#pragma once

#include "train/train.h"

typedef enum {
    STANDING_MAKING_TOKENS, /* of its data; standing_look doesn't say so */
    STANDING_RUNNING,
    STANDING_FINISHED,
    STANDING_INTERRUPTED, /* by a signal; its checkpoint was saved */
    STANDING_FAILED,
    STANDING_KILLED /* it ended without a word */
} standing_state;
const char *standing_state_name(standing_state s); /* "running" … */

enum { STANDING_RECENT = 32, STANDING_TEXT_BYTES = 512 };

typedef struct {
    standing_state state;
    char owner[STANDING_TEXT_BYTES];  /* of a running one: "process 4711 on node3" */
    char run[24];                     /* which one it is, as identity_digest says; empty: not known */
    char reason[STANDING_TEXT_BYTES]; /* of one that was interrupted or failed */
    train_progress at;                /* of the last step; seconds_left NAN where it is not known */
    int64_t eval_step;                /* 0: nothing was validated yet */
    double eval_loss;
    int64_t checkpoint; /* step of the newest; 0: none */
    double silent;      /* seconds since something was written */
    /* Between calls: how far the metrics were read, and what the time left is judged by. */
    uint64_t offset;
    double recent[STANDING_RECENT];
    uint32_t steps_seen;
    bool begun, ended;
} standing;

/* Looks anew; `s` is zeroed before the first time, and only what is new is read then. STATUS_INVALID for a
 * folder that no run has written to. */
status standing_look(const char *folder, standing *s);

/* Whether tokens of a run's data are being made in its folder, which comes before anything of the run itself.
 * `who`: as lock_is_held says. */
bool standing_makes_tokens(const char *folder, char *who, size_t bytes);
