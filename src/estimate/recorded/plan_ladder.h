/* Choices of what to compute again and what to keep with the host, from none to all that saves something.
 *
 * Of each module there are points (bytes saved, seconds more): the module as a whole, computed again with the
 * results of more and more kinds of operations kept, or what its modules save together. Its points are the
 * lower convex hull of these, and a module of several has the increments of all of them in the order of
 * seconds a byte. That is the multiple-choice knapsack with its hulls (Sinha and Zoltners, 1979), nested
 * along the tree: each rung saves its bytes in the least time, as long as bytes add up. They do at the end of
 * forward. What they do at the peak is found by playing the rung. Of equal modules the first one comes first:
 * its backward is the last, when least else is there. */
#pragma once

#include "estimate/recorded/plan_tree.h"

typedef struct {
    double bytes, seconds;
    plan_action action; /* PLAN_KEEP: what its modules do, `steps` of their increments */
    uint32_t steps;
    uint64_t keeps; /* with PLAN_AGAIN: kinds of operations whose results stay */
} plan_point;

typedef struct {
    plan_point *points; /* from nothing saved on; of nothing there is always one */
    uint32_t count;
    uint32_t *order; /* whose increment each step is, of the modules directly within */
} plan_hull;

typedef struct {
    const plan_tree *t;
    plan_hull *of; /* by module */
} plan_ladder;

/* PLAN_MAY_RESULTS: beside PLAN_MAY_AGAIN, results of some operations may stay. */
enum { PLAN_MAY_AGAIN = 1, PLAN_MAY_AWAY = 2, PLAN_MAY_RESULTS = 4 };

/* `largest`: no module that saves more bytes than that is computed again as a whole, since all of it comes
 * back at once. STATUS_FAILED: no memory. STATUS_INVALID: modules lie within modules as in no model. Close it
 * in any case. */
status plan_ladder_find(const plan_tree *t, int may, double largest, plan_ladder *l);
void plan_ladder_close(plan_ladder *l);

static inline uint32_t plan_ladder_rungs(const plan_ladder *l) { return l->of[0].count; }
/* The actions of a rung, by module, and kinds of results that stay; modules within one that acts have
 * PLAN_KEEP. STATUS_FAILED: no memory. */
status plan_ladder_rung(const plan_ladder *l, uint32_t rung, uint8_t *action, uint64_t *keeps);
