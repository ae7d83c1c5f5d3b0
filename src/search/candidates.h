/* The candidates of a search that still matter, by what is known of each. */
#pragma once

#include "search/space.h"
#include "search/visit.h"

/* A lower bound, from outlines of other candidates; its own sketch, where all.sketches; its own outline; its
 * plan. */
typedef enum { BOUND, SKETCHED, OUTLINED, PLANNED } knowledge;

typedef struct {
    space_code code;
    uint64_t peak_bytes; /* by what is known: never more than its plan will have; 0: there is no plan, or it
                          * was given up */
    uint64_t away_bytes; /* the same */
    double seconds;
    uint8_t class, known;
} candidate;

typedef struct {
    const compose_run *run;
    const space *space;
    uint64_t limit; /* peaks above it don't matter */
    /* What matters is at most as large as `peak_bytes`, or within the budget and takes at most `seconds`.
     * These two are of planned candidates. They only get better, so what is out of reach stays out of reach.
     */
    compose_reach reach;
    visit_memory memory;
    bool sketches; /* chain/sketch.h */
    candidate *items;
    uint32_t count, room;
    uint64_t above; /* the least peak that what was given up may have, so far */
    uint32_t sketched, outlined, given_up, planned; /* so far */
} candidates;

candidates candidates_none(const compose_run *r, const space *s, uint64_t limit);
void candidates_close(candidates *c);

/* In reach, and within the limit and what may be away. */
bool candidates_in_reach(const candidates *c, const candidate *x);
status candidates_add(candidates *c, const candidate *x); /* where it is in reach */
void candidates_drop(candidates *c);                      /* drops those that are no longer in reach */

/* A lower bound of the seconds of what has this outline or sketch. Without waiting they are a sum of pieces,
 * which is not that of their step to the last bit. */
double candidates_seconds(const compose_least *x);

/* What compose_bound may give up. `planning_only`: only what the memory of planning rules out; persistent
 * tensors and seconds are not looked at. */
compose_reach candidates_reach(const candidates *c, bool planning_only);
