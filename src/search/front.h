/* The front of (peak, seconds) of a space of candidates. Few candidates are looked at.
 *
 * For each stem two tables of candidates are outlined. The first has every combination of the passes that are
 * of_state (pass.h), with the other passes off. The second has every combination of the other passes, next to
 * one combination of the first for each effect on forward and backward. From these outlines every candidate
 * of the stem gets a lower bound (front_bound).
 *
 * Then the leanest or the fastest candidate by what is known is asked for, again and again. If only its bound
 * is known, the candidate is outlined. If its outline is known, it is planned. If it is planned, it is the
 * answer: all other candidates are bounded from below by something worse. */
#pragma once

#include "search/space.h"
#include "search/visit.h"

/* Puts the points of the front that are wished for (NULL: all of them) into `front`: peak rising, seconds
 * falling; between equals the more exact one, then the earlier one. What cannot be planned, or has a peak
 * above `limit`, is left out; so front->count may become 0. Sets candidates, planned and held_bytes as well.
 */
status front_find(const compose_run *r, const space *s, uint64_t limit, const search_wish *w,
                  search_front *front);

/* Plans the choice of each point, on all threads. peak_bytes 0: it cannot be planned. Where an outline is
 * above `limit`, or given up, the point is not planned: its peak is what was seen of it, and too small
 * perhaps. */
status front_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count);

/* A lower bound of a candidate's outline, from the outlines of three other candidates of its stem:
 * - `values` has the candidate's settings of the passes that are not of_state,
 * - `state` has the candidate's settings of the passes that are,
 * - `base` has what remains: the of_state settings of `values`, and the other settings of `state`.
 * Caches make times add up only nearly; the bound leaves room for that (SLACK in front.c). */
typedef struct {
    const compose_least *values, *state, *base;
    bool gradients; /* settings of the candidate or of `values` shorten lives of gradients */
    bool effect;    /* the candidate's of_state settings have an effect on forward and backward */
} front_parts;
typedef struct {
    uint64_t peak_bytes;
    double seconds;
} front_least;
front_least front_bound(const front_parts *parts);
