/* What the ranks of a run say to each other while they train: one small message of all to all before a step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    uint64_t labels; /* that count in this rank's samples; afterwards in those of all */
    bool stops;      /* is it asked to stop? afterwards whether any is */
} together_note;

/* `so_far`: how it went on this rank since the last message. A failure of any rank is one of all, with its
 * sentence. With one rank that is all there is to it. */
status together_agree(status so_far, together_note *note);

/* Each kind of movement between ranks once, so that what it takes of memory is seen before the first step. */
status together_rehearse(void);
