/* Where the time of a training step goes. Plans are run as train runs them, on the user's data or on made-up
 * samples, and nothing is written. One step goes first to warm up, and shows what memory is used; then each
 * step is taken by the clock, kernel call by kernel call. Beside what was measured stand the time that was
 * predicted and the bound: a call can't be faster than its arithmetic at the highest rate of products (on
 * codes of 8 bits, where it multiplies those), nor than its bytes at the rate of memory. (What still lies in
 * a cache can: then it is faster than its bound.)
 *
 * Sums are those of one step, the median one, and not of several, so that they add up to a time that was
 * really seen. */
#pragma once

#include "comm/comm.h"
#include "train/train.h"

/* In seconds of exec_now. */
typedef struct {
    double begin, ready, met, end; /* asking for the batch; having it, and all other ranks as well; the update
                                      and all else is done */
    double data, meeting, hand_in, kernels, rest; /* they add up to end - begin: waiting for the batch, for
                                                     the word of other ranks, writing inputs, in calls of
                                                     kernels, everything after the last one */
    double links;                                 /* of `kernels`: waiting for what other ranks send */
    comm_moved moved;                             /* by this rank's thread meanwhile */
} profile_step;

/* What one of several ranks held and did in the step that is shown. What it kept of its plan: run.ranks. */
typedef struct {
    uint64_t by_category[CATEGORY_COUNT]; /* measured */
    profile_step step;                    /* moments by a clock of its own */
} profile_rank;

/* A sum over kernel calls of one optimizer step. */
typedef struct {
    const char *op; /* by op and phase; NULL in rows by block */
    phase phase;
    int32_t site; /* in rows by block */
    uint32_t calls;
    double seconds, by_phase[PHASE_COUNT];
    double predicted;
    double bound, compute, traffic; /* of each call the longer one of the two counts */
    double flops, bytes;
} profile_row;

typedef struct {
    train_result run; /* memory, and the time of a step; no losses */
    int64_t steps;    /* that were measured */
    profile_step *step;
    uint32_t shown; /* the median step, which the rows tell of */
    profile_row *ops, *blocks, total;
    uint32_t op_count, block_count; /* ops: longest first; blocks: by number, what is outside of them last */
    profile_rank *ranks; /* run.rank_count of them; NULL: there is one process, or not all came to the end */
    double moving;       /* seconds that the movements of a step were predicted to take */
    double *moments;
    uint64_t moments_of_step;
    uint64_t table_bytes; /* all that the profile itself keeps, run.lives among it where it is kept */
} profile_result;

/* Adds what the profile keeps to the plan's reserve for tables; STATUS_NO_FIT where that is beyond the
 * budget. `*observes`: there is room for run.lives as well, and it is added too. */
status profile_reserve(const setup *s, decision *d, int64_t steps, bool *observes);

/* `observes`: as profile_reserve said; without it run.lives is NULL. The result is valid (as far as it got)
 * in any case. STATUS_INTERRUPTED after *stop. All ranks call it with the same number of steps, and the step
 * that is shown is the median one of rank 0. */
status profile_run(const setup *s, const decision *d, int64_t steps, bool observes,
                   volatile sig_atomic_t *stop, profile_result *r);
void profile_close(profile_result *r);

/* The rates behind bounds, per second: of products of floats, of memory. */
double profile_peak(const device_rates *rates);
double profile_bandwidth(const device_rates *rates);

/* What one call can't be faster than. */
typedef struct {
    double flops, bytes, compute, traffic, bound;
} profile_bound;
profile_bound profile_bound_of(const program *p, uint32_t step, const device_rates *rates);

/* Runs of programs in an optimizer step, and run number `run` of step `step`: its program and its moments. */
uint32_t profile_runs(const decision *d);
const double *profile_moments(const profile_result *r, const decision *d, int64_t step, uint32_t run,
                              uint32_t *which);
