/* What the ranks of a run say to each other while they train: one small message of all to all before a step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "train/train.h"

typedef struct {
    uint64_t labels; /* that count in this rank's samples; afterwards in those of all */
    bool stops;      /* is it asked to stop? afterwards whether any is */
} together_note;

/* `so_far`: how it went on this rank since the last message. A failure of any rank is one of all, with its
 * sentence. With one rank that is all there is to it. */
status together_agree(status so_far, together_note *note);

/* The end of a run, `mine` on this rank: where ranks have come to different ones, the first failure is one of
 * all. */
status together_end(status mine);

/* How each rank kept to its plan, for the report of rank 0: r->ranks. */
status together_measure(const exec *e, const decision *d, train_result *r);
