/* What a recorded step keeps for backward, module by module: what it would save, and take, to compute a
 * module again or to keep what it saved with the host. The numbers are those of one micro-batch. */
#pragma once

#include "estimate/recorded/recorded_play.h"

typedef enum { PLAN_KEEP, PLAN_AGAIN, PLAN_AWAY } plan_action;

/* Rates of a device: operations and bytes a second, seconds to begin a call. 0: not known, and it costs
 * nothing; a link of 0: there is no host to keep anything with. */
typedef struct {
    double products, bandwidth, link, begin;
} plan_rates;

typedef struct {
    bool may;       /* the action is possible */
    double bytes;   /* that backward finds gone, if nothing else changes */
    double seconds; /* that it takes more */
} plan_cost;

/* Of a module that is computed again and a kind of its operations: what their results take where they stay,
 * and what it then takes less. */
typedef struct {
    double bytes, seconds;
} plan_result;

/* Of a storage: 0 where there is no such call, module or storage. */
typedef struct {
    uint32_t born;  /* the call of forward that makes it */
    uint32_t read;  /* the last call of forward that reads it */
    uint32_t home;  /* the innermost module that has all calls of forward which make or read it */
    uint32_t saver; /* the innermost module that has all which save it; UINT32_MAX: nobody does */
    bool stays;     /* backward finds it there */
} plan_storage;

typedef struct {
    const recording *recording;
    const recording_program *program;
    const recorded_sizes *sizes;
    uint32_t *parent, *depth; /* by module; the model is 0 and its own parent */
    uint32_t *last_call;      /* by module: the last call of forward in it */
    plan_cost *again, *away;  /* by module, with all that is in it */
    recorded_kinds kinds;
    uint8_t *kind_of;        /* by call, from 1 (recorded_kinds_of) */
    plan_result *results;    /* by module, of each kind; NULL: none stay */
    uint64_t *keeps, *draws; /* by module, sets of kinds: whose results may stay, and which draw in it */
    plan_storage *storages;  /* from 1 */
    double *call_seconds;    /* from 1 */
    double once, update;     /* seconds: forward and backward of a micro-batch; the update */
    double kept;             /* bytes that backward finds, made in forward */
    uint64_t least;          /* bytes: smaller storages stay where they are */
    uint64_t *copies;        /* sizes of autocast's copies of weights, in order */
    uint32_t copy_count;
    bool mixes_samples; /* batch norm: other micro-batches train something else */
} plan_tree;

/* STATUS_FAILED: no memory. Close it in any case; the recording and the sizes must outlive it. */
status plan_tree_find(const recording *r, const recorded_sizes *sizes, const torch_settings *s,
                      const plan_rates *rates, plan_tree *t);
void plan_tree_close(plan_tree *t);

/* What it saves, and takes, to compute a module again and keep results of these kinds. */
plan_cost plan_tree_again(const plan_tree *t, uint32_t module, uint64_t kinds);

/* Is `module` the same as `outer` or within it? */
bool plan_tree_has(const plan_tree *t, uint32_t outer, uint32_t module);

/* May that storage go to the host where a module saves it? The policy that is written decides by the same
 * numbers. */
bool plan_tree_moves(const plan_tree *t, uint32_t storage);

/* In `course`, what modules with PLAN_AWAY save goes to the host: it dies when the module has returned and
 * nobody reads it any more, and each node of backward that reads it has a copy of its own. `keeps`: by module
 * with PLAN_AGAIN, kinds of results that stay. */
typedef struct {
    uint64_t host;        /* bytes that the host has at most */
    double there, back;   /* bytes over the link */
    uint32_t transferred; /* how many times something is copied */
} plan_moved;
status plan_move(const plan_tree *t, const uint8_t *action, const uint64_t *keeps, recorded_course *course,
                 plan_moved *out);
