/* What is chosen for a setup: the front that was searched, the point of it that the budget picks, and its
 * plan. */
#pragma once

#include "run/setup.h"
#include "search/advise.h"

typedef struct {
    search_front front;
    search_point point;
    compose_split split;
    plan plan;
    search_share shares[PASS_MAX];
    uint32_t share_count;
    search_decline declined[PASS_MAX]; /* where there is a front */
    uint32_t declined_count;
    uint64_t budget;           /* as above */
    uint64_t held_bytes;       /* that the search held, as the plan counts them */
    char advice[ADVISE_BYTES]; /* when it does not fit */
} decision;

/* STATUS_NO_FIT, with `front`, `budget` and `advice` filled, when no plan is within the budget: the recorded
 * sentence says by how much. Free with decision_close also then. */
status decision_make(const setup *s, decision *d);

/* The plan of a choice that was made elsewhere: of `point`, by a search that held so much. There is no front.
 */
status decision_follow(const setup *s, const search_point *point, uint64_t held_bytes, decision *d);
void decision_close(decision *d);
