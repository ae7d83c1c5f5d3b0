/* From a model and a choice of settings to planned programs: the whole chain (docs/design.md, "One way for
 * the data") as one function, for candidates of a search and for the run that is chosen. */
#pragma once

#include "autodiff/optimizer.h"
#include "models/model.h"
#include "models/paged.h"
#include "passes/pass.h"
#include "plan/plan.h"

/* What is computed: the same for every candidate. */
typedef struct {
    const model *model;
    int64_t batch;        /* samples per optimizer step */
    int64_t unit;         /* of them, whose sums stay together (autodiff/units.h); 0: all. It divides them */
    int64_t ranks;        /* that have as many units each, or without a unit as many samples; 0 or 1: one */
    int64_t of_host;      /* as pass_context has it */
    int64_t context;      /* length of a sample; 1 where the model has no time */
    int64_t layers;       /* as model_run has it */
    int64_t eval_batch;   /* samples per validation call; 0: as many as a micro-batch */
    int64_t eval_samples; /* of validation; 0: none */
    plan_buffer buffers[2]; /* of the data: the loader's read-ahead, one sample of validation */
    uint32_t buffer_count;
    uint64_t memory;     /* the host's budget, which the search itself must keep too; 0: none */
    uint64_t room;       /* what more than one candidate may take at once; 0: `memory` */
    uint64_t kept_bytes; /* what the run remembers of its steps, outside of the pool */
    const char *folder;  /* for what does not stay in memory; NULL: none */
    uint64_t away_limit; /* on what plan_away_bytes counts; 0: none. Beside a device apart what is above it
                          * goes to `folder`, where there is one */
    bool training;       /* false: validation only */
    const struct pass_adapters *adapters; /* of programs by rows (passes/adapting.h); NULL: none */
    const struct compose_known *known;    /* chain/known.h; NULL: nothing is kept for other searches */
    optimizer_options optimizer;
    lower_options lower;
} compose_run;

/* Does the device have memory of its own? Then peaks and budgets of candidates are the device's, and what it
 * takes to make plans is the host's. */
static inline bool compose_apart(const compose_run *r) { return lower_device(&r->lower)->apart; }

/* Are there several units, whose sums are added? */
static inline bool compose_units(const compose_run *r) {
    return r->training && r->unit && r->unit < r->batch;
}

/* Is one sum handed from rank to rank (passes/sharding/chain.c)? */
static inline bool compose_chained(const compose_run *r) { return r->training && !r->unit && r->ranks > 1; }

/* The largest micro-batch: a unit is computed in one or more, and so is what a rank has of a chain. */
static inline int64_t compose_unit(const compose_run *r) {
    return compose_units(r) ? r->unit : compose_chained(r) ? r->batch / r->ranks : r->batch;
}

/* Samples of an optimizer step that one rank has. */
static inline int64_t compose_here(const compose_run *r) {
    return r->training && r->ranks > 1 ? r->batch / r->ranks : r->batch;
}

/* Samples that follow each other on a rank, before those of the next one. Of a chain they are a micro-batch:
 * then the sum goes through all ranks with the first micro-batch of each, then with the second. */
static inline int64_t compose_turn(const compose_run *r, int64_t micro_batch) {
    return compose_chained(r) ? micro_batch : compose_unit(r);
}

/* Rows per sample of the sums over the fewest: a head that judges whole samples sees one token of each. Cut
 * into micro-batches, sums keep their order where these rows are whole row tiles. */
static inline int64_t compose_least_rows(const compose_run *r) {
    return r->model->head.kind == HEAD_LANGUAGE ? r->context : 1;
}

/* What may differ between candidates. */
typedef struct {
    int64_t micro_batch;
    pass_setting settings[PASS_MAX]; /* by pass, in the order of pass_table; empty text: off */
} compose_choice;

/* How a batch falls into micro-batches: `accumulate` calls of micro_batch samples, then one step of `last`.
 * Of those calls `ends` are the last ones of a unit that others follow. */
typedef struct {
    int64_t accumulate, last, ends;
    int64_t eval_batch, eval_calls, eval_rest;
} compose_split;
compose_split compose_split_of(const compose_run *r, const compose_choice *c);

/* The graph that settings() of a pass of `stage` looks at: the model's graph for forward passes, the whole
 * training step for step passes; that of validation where nothing is trained. */
status compose_graph(const compose_run *r, const compose_choice *c, pass_stage stage, graph *g);
pass_context compose_context(const compose_run *r, const compose_choice *c);

/* A stem: the graphs of the run's programs before the step passes. Candidates with the same micro-batch and
 * the same settings of forward passes share it. */
enum { COMPOSE_PROGRAMS = 5 }; /* of a run that trains and validates, at most */
typedef struct {
    graph graphs[COMPOSE_PROGRAMS];
    status made; /* what compose_stem_open returned */
} compose_stem;
status compose_stem_open(const compose_run *r, const compose_choice *c, compose_stem *s);
/* The next graphs have what is left of `all` beside others that take `used`. */
void compose_limit(const graph_room *all, uint64_t used);
void compose_stem_close(compose_stem *s); /* also after a failure */
bool compose_same_stem(const compose_choice *a, const compose_choice *b);
bool compose_same(const compose_choice *a, const compose_choice *b); /* in all settings */

/* A trunk: graphs that one thread keeps from the choice that it looked at last, each after one of the step
 * passes. The next choice mostly has the same settings of the first step passes, and goes on from there. */
enum { COMPOSE_KEPT = 6 };
typedef struct {
    const compose_stem *stem;
    uint32_t most;         /* graphs that it keeps: 0 to COMPOSE_KEPT */
    const graph *root;     /* the graph of the stem that the kept ones were made from, */
    compose_choice choice; /* and the choice that they were made for */
    uint32_t count;
    struct {
        graph graph;
        int pass; /* the last pass that has run on it, as an index into pass_table */
    } kept[COMPOSE_KEPT];
} compose_trunk;                            /* begins as { stem, most } */
void compose_trunk_close(compose_trunk *t); /* before its stem */

/* Builds, rewrites, lowers, schedules and plans all programs of the run. _on: from a trunk whose stem is that
 * of the choice, for its numbers alone: nobody may run such a plan, whose programs were not verified. */
status compose_plan(const compose_run *r, const compose_choice *c, plan *p);
status compose_plan_on(const compose_run *r, const compose_choice *c, compose_trunk *t, plan *p);

/* The outline of a candidate: all but packing, in a third of the time. peak_bytes is a lower bound of the
 * plan's, and mostly equal to it; seconds are compose_seconds of the plan. A candidate that is seen to be out
 * of reach on the way (compose_reach) is given up: given_up is set, peak_bytes is the bound that was known by
 * then, and all else is unset (0). */
typedef struct {
    uint64_t peak_bytes;
    double seconds;
    bool given_up;
    uint64_t away_bytes;  /* plan_away_bytes, less what could be filed (plan/away.h) */
    uint64_t fixed_bytes; /* of running: all but the arena and the slots of pieces */
    uint64_t held_bytes;  /* what persists, or planning takes if that is more; 0: it was not looked at */
    pieces_size pieces;   /* what passes through those slots */
    live_values values;   /* the most that is alive in the arena during forward and backward */
    uint64_t table_bytes; /* of the plan */
    double computing;     /* seconds, without waiting for files */
    bool unwaited;        /* `seconds` lack what is waited for: they are a lower bound */
    bool sketched;        /* all of it is a lower bound (chain/sketch.h) */
    bool shallow;         /* so are `values`, of fewer layers, and nothing else is known */
} compose_least;

/* What is worth looking at: candidates of at most `peak_bytes`, and those of at most `budget` that take at
 * most `seconds`. A candidate is given up when its persistent tensors, or the memory that planning it takes,
 * are above both; and when they are above `peak_bytes` and it takes longer than `seconds`. Its activations
 * don't count. So what was given up has a peak above `peak_bytes`.
 *
 * `beyond` (NULL: none) may give up more. It gets the outline of one program alone, where there are several:
 * the one that a step calls most often. All in it is at most what the outline of all programs has. */
typedef struct {
    uint64_t peak_bytes, budget;
    double seconds;
    bool planning_only; /* persistent tensors and seconds are not looked at, only the memory of planning */
    uint32_t frees;     /* roles, a bit for each, of which other settings may leave less: not looked at */
    bool unwaited;      /* seconds without waiting are enough: a third of the time where much is away */
    bool (*beyond)(const void *context, uint32_t index, const compose_least *first);
    const void *context; /* handed to `beyond`, with the index of the candidate */
    uint32_t index;
} compose_reach;
status compose_bound(const compose_run *r, const compose_choice *c, compose_trunk *t,
                     const compose_reach *reach, compose_least *out);

/* The plan of predicting what r->batch whole samples are (MODEL_PREDICT): its one program. Of r it reads
 * model, batch, buffers, kept_bytes and lower. `pinned` (may be NULL): settings of forward passes that are
 * not up to them. */
status compose_predict(const compose_run *r, const compose_choice *pinned, plan *p);

/* Programs by rows of any texts, which ascend. */
enum { COMPOSE_MOST_ROWS = 12 };
typedef struct {
    int64_t rows[COMPOSE_MOST_ROWS];
    uint32_t count;
} compose_steps;
/* The plan of continuing texts (MODEL_ROWS, models/paged.h): program number i of the plan has steps->rows[i]
 * rows; behind those of `steps` are those that read sources (MODEL_SOURCES), of a model that answers. All
 * have the same weights, caches and arena. sizes->wanted is for the last of `steps`; each has at most as many
 * as it has rows. Of r it does not read batch. */
status compose_rows(const compose_run *r, const compose_choice *pinned, const paged_sizes *sizes,
                    const compose_steps *steps, const compose_steps *sources, plan *p);

/* Predicted seconds of one optimizer step; of the whole validation where nothing is trained: of the rank that
 * has most of it. */
double compose_seconds(const compose_run *r, const plan *p);
/* Of these what is waited for other ranks, with what moving takes of the processors. */
double compose_waiting(const compose_run *r, const plan *p);
