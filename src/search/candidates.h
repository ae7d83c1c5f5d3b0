/* The candidates of a search that still matter, by what is known of each. */
#pragma once

#include "search/space.h"
#include "search/visit.h"

/* A lower bound, from outlines of other candidates; its own outline; its plan. */
typedef enum { BOUND, OUTLINED, PLANNED } knowledge;

typedef struct {
    space_code code;
    uint64_t peak_bytes; /* by what is known: never more than its plan will have */
    uint64_t away_bytes; /* 0 where only a bound is known */
    double seconds;
    uint8_t class, known;
} candidate;

typedef struct {
    const compose_run *run;
    const space *space;
    uint64_t limit; /* peaks above it don't matter, whatever is in reach */
    /* At most as large as `peak_bytes`, or within the budget and at most as fast as `seconds`. Both belong to
     * candidates that are planned already. They only get better, so what is out of reach stays out of reach.
     */
    compose_reach reach;
    visit_memory memory;
    candidate *items;
    uint32_t count, room;
    uint32_t outlined, planned; /* so far */
} candidates;

candidates candidates_none(const compose_run *r, const space *s, uint64_t limit);
void candidates_close(candidates *c);

bool candidates_in_reach(const candidates *c, const candidate *x);
status candidates_add(candidates *c, const candidate *x); /* where it is in reach */
void candidates_drop(candidates *c);                      /* those that are no more */

/* What compose_bound may give up. `planning_only`: a candidate is given up only if planning it takes too much
 * memory. */
compose_reach candidates_reach(const candidates *c, bool planning_only);
