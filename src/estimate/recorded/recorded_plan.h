/* The plan of a recorded step: how many samples at once, which modules are computed again, of which what
 * they save is kept with the host, and whether head and loss come in pieces of rows (recorded_chunks.h), at
 * the least predicted time within a budget.
 *
 * The ways that are tried do not depend on the budget: for each micro-batch the rungs of some ladders
 * (plan_ladder.h), each of them played to the byte. So more memory is never slower, and what a budget allows
 * a larger one allows. What is not tried may be better: between two rungs, and combinations that save less
 * for each second by the ladder's sums and more at the peak. Numbers of pieces are powers of two, and only
 * two of them have ladders of their own.
 *
 * Settings that make another step of the recorded one (recorded_rewrite.h) come first: at each micro-batch
 * the rewritten program is what is planned. */
#pragma once

#include "estimate/hardware.h"
#include "estimate/recorded/plan_tree.h"

typedef struct {
    const recording *recording;
    torch_settings settings;      /* batch: the micro-batch where it is pinned, else the step's */
    bool micro_is_pinned, surely; /* surely: bytes are the upper end of the interval */
    bool loss_is_pinned;          /* in as many pieces as the settings say; else the plan chooses */
    bool none_away;               /* nothing is kept with the host */
    bool none_stays;              /* no results of modules that are computed again */
    unsigned types;               /* that the plan may have beside the settings': bits of 1 << torch_types */
    uint64_t most_away;           /* bytes that the host may keep; 0: any number */
    const hardware *hardware;     /* for its rates */
} plan_request;

typedef struct {
    int64_t batch, accumulate; /* samples at once, and how many times */
    torch_types types;         /* of numbers: as asked, or as allowed */
    int64_t pieces;            /* of rows, of head and loss; 0: whole */
    uint8_t *action;           /* plan_action, by module */
    uint64_t *keeps; /* by module that is computed again: kinds whose results stay, of recorded_kinds_find */
    uint32_t again, away;    /* how many modules */
    uint32_t keeping;        /* of those that are computed again how many keep results */
    interval live, reserved; /* bytes */
    uint64_t bytes;          /* what is promised, and compared with a budget: live on a CPU, else reserved;
                              * a little above the likely value, or the upper end */
    uint64_t host_bytes;     /* that the host keeps, at most */
    uint64_t least;          /* bytes of storages that go to the host, at least */
    double seconds;          /* of a step, at the device's rates; without what devices send one another */
    double link_bytes;       /* that a device receives from the others in a step */
    uint64_t by_term[TAPE_TERMS];
    const char *peak_in;
} plan_way;

typedef struct {
    plan_way *ways;     /* the front: more bytes, less time */
    uint32_t count;     /* at least one */
    uint32_t tried;     /* ways that were played */
    plan_way plain;     /* as asked, nothing computed again; its bytes are 0 where the recording can't tell */
    bool keeps_batch;   /* the batch is not cut, since batch norm looks at all samples */
    bool knows_modules; /* the recording says how often modules run; else none is computed again */
    uint64_t parameters, trained;
} recorded_plan;

/* STATUS_INVALID: the recording does not tell how it grows to any of the micro-batches, or what autograd
 * keeps where settings rewrite it. Close it in any case. */
status recorded_plan_find(const plan_request *q, recorded_plan *out);
void recorded_plan_close(recorded_plan *p);

/* The fastest way within the budget; NULL: none is. */
const plan_way *recorded_plan_within(const recorded_plan *p, uint64_t budget);
