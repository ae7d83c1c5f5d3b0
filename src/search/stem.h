/* The candidates of a stem: programs that are built alike, and differ only in the passes of a step.
 *
 * Two tables of them are outlined. The first has every combination of the passes that are of_state (pass.h),
 * with the other passes neutral: off, or on their first setting where off is not offered. The second has
 * every combination of those others, next to one of the first for each effect on forward and backward. From
 * these outlines every candidate of the stem gets a lower bound. */
#pragma once

#include "search/candidates.h"

/* Adds those that are in reach: what is in the tables by its outline, all others by their bounds. */
status stem_add(candidates *all, uint16_t stem);

/* A lower bound of a candidate's outline, from the outlines of three other candidates of its stem:
 * - `values` has the candidate's settings of the passes that are not of_state,
 * - `state` has the candidate's settings of the passes that are,
 * - `base` has what remains: the of_state settings of `values`, and the other settings of `state`.
 * Of `values` the outline of one program is enough, and also one of fewer layers: the bound is lower then.
 * Caches make times add up only nearly; the bound leaves room for that (SLACK in stem.c). */
typedef struct {
    const compose_least *values, *state, *base;
    bool gradients; /* settings of the candidate or of `values` shorten lives of gradients */
    bool effect;    /* the candidate's of_state settings have an effect on forward and backward */
} stem_parts;
typedef struct {
    uint64_t peak_bytes, away_bytes;
    double seconds;
} stem_least;
stem_least stem_bound(const stem_parts *parts);
