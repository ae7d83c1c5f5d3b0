/* What would help: each remedy's bytes are taken out of the recorded course, and the peak is found anew.
 *
 * A recording that ends in its first step has not seen the state of the optimizer beside the activations: the
 * second step is played on then. It is the first one once more, with all that this has left. */
#pragma once

#include "snapshot/levels.h"
#include "snapshot/roles.h"
#include "snapshot/sites.h"

typedef enum {
    REMEDIES_CHECKPOINTING, /* of a block's activations only what it hands on stays; the others come back when
                               backward reaches the block, by its forward */
    REMEDIES_HALF_BATCH,    /* activations, inputs and temporaries of forward and backward are half */
    REMEDIES_FUSED_LOSS,    /* an eighth of the logits and of what the loss makes of them at a time */
    REMEDIES_FUSED_UPDATE,  /* the update has no temporaries */
    REMEDIES_SMALL_STATE,   /* a quarter of the optimizer's state, as 8 bits are of 32 */
    REMEDIES_COUNT
} remedies_kind;
const char *remedies_name(remedies_kind k); /* "checkpointing" */

typedef struct {
    uint64_t peak;  /* with it, of the recording and of the step that was played on */
    uint64_t saves; /* by which that is less; 0: it moves the peak nowhere */
} remedies_row;

typedef struct {
    uint64_t peak;   /* as it was recorded, or of the second step where that is more */
    uint64_t second; /* the peak of the second step, where it was played on; 0: it was not */
    remedies_row rows[REMEDIES_COUNT];
} remedies;

/* `blocks` is how many the model has (sites); 0: none are known. */
status remedies_find(const course *c, const levels *l, const roles *r, uint32_t blocks, remedies *out);
