/* From a model and choices to planned programs: the one way for the data of DESIGN 2, as one function. */
#pragma once

#include "autodiff/optimizer.h"
#include "models/model.h"
#include "passes/pass.h"
#include "plan/plan.h"

/* What is computed: the same for every candidate. */
typedef struct {
    const model *model;
    int64_t batch;          /* samples per optimizer step */
    int64_t context;        /* length of a sample; 1 where the model has no time */
    int64_t eval_batch;     /* samples per validation call; 0: as many as a micro-batch */
    int64_t eval_samples;   /* of validation; 0: none */
    plan_buffer buffers[2]; /* of the data: the loader's read-ahead, one sample of validation */
    uint32_t buffer_count;
    uint64_t kept_bytes; /* what the run remembers of its steps, outside of the pool */
    const char *folder;  /* for what does not stay in memory; NULL: none */
    bool training;       /* false: validation alone */
    optimizer_options optimizer;
    lower_options lower;
} compose_run;

/* What may differ between candidates. */
typedef struct {
    int64_t micro_batch;
    pass_setting settings[PASS_MAX]; /* by pass, in the order of pass_table; empty text: off */
} compose_choice;

/* How a batch falls into micro-batches: `accumulate` calls of micro_batch samples, then one step of `last`.
 */
typedef struct {
    int64_t accumulate, last;
    int64_t eval_batch, eval_calls, eval_rest;
} compose_split;
compose_split compose_split_of(const compose_run *r, const compose_choice *c);

/* The graph of the training step before step passes, or that of validation where nothing is trained: what
 * settings() of a pass of `stage` should look at. */
status compose_graph(const compose_run *r, const compose_choice *c, pass_stage stage, graph *g);
pass_context compose_context(const compose_run *r, const compose_choice *c);

/* What candidates with the same micro-batch and the same settings of forward passes have in common: the
 * graphs of the run's programs up to the step passes. */
typedef struct {
    graph graphs[PROGRAM_COUNT];
    status made; /* what compose_stem_open has returned */
} compose_stem;
status compose_stem_open(const compose_run *r, const compose_choice *c, compose_stem *s);
void compose_stem_close(compose_stem *s); /* also after a failure */
bool compose_same_stem(const compose_choice *a, const compose_choice *b);
bool compose_same(const compose_choice *a, const compose_choice *b); /* altogether */

/* What one thread keeps of a stem's step passes. Choices that it looks at one after the other mostly begin
 * with the same settings, and then their graphs grow from what those have made. */
enum { COMPOSE_KEPT = 2 };
typedef struct {
    const compose_stem *stem;
    const graph *root;     /* which of its graphs was the last to grow */
    compose_choice choice; /* for which */
    uint32_t count;
    struct {
        graph graph;
        int pass; /* made by this one, the last of those that have run; by place in pass_table */
    } kept[COMPOSE_KEPT];
} compose_trunk;                            /* begins as { stem } */
void compose_trunk_close(compose_trunk *t); /* before its stem */

/* Builds, rewrites, lowers, schedules and plans all programs of the run; _on: on a trunk whose stem is the
 * choice's. */
status compose_plan(const compose_run *r, const compose_choice *c, plan *p);
status compose_plan_on(const compose_run *r, const compose_choice *c, compose_trunk *t, plan *p);

/* What is worth looking at: what may take no more than `peak_bytes`; or than `budget`, if it takes no more
 * than `seconds` either. */
typedef struct {
    uint64_t peak_bytes, budget;
    double seconds;
} compose_reach;

/* A lower bound of the plan's peak_bytes, which is mostly it, and its compose_seconds, in a third of the time
 * or less: nothing is packed. What is seen to be out of reach on the way is given up: then the bound may be a
 * lower one, and seconds are 0. */
typedef struct {
    uint64_t peak_bytes;
    double seconds;
    bool given_up;
} compose_least;
status compose_bound(const compose_run *r, const compose_choice *c, compose_trunk *t,
                     const compose_reach *reach, compose_least *out);

/* The plan of generating, one token of each of r->batch samples at a time. Of r it reads model, batch,
 * buffers, kept_bytes and lower. `pinned` (may be NULL): settings of forward passes that are not up to them.
 */
status compose_decode(const compose_run *r, const compose_choice *pinned, plan *p);

/* Predicted, of one optimizer step; of the whole validation where that is all there is. */
double compose_seconds(const plan *p, const compose_split *s);
