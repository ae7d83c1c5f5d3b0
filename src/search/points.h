/* Points whose choices are given: planned as they are, with no search. */
#pragma once

#include "search/search.h"

/* Plans the choice of each point, on all threads. peak_bytes 0: it cannot be planned. Where an outline is
 * above `limit`, or given up, the point is not planned: its peak is what was seen of it, and too small
 * perhaps. */
status points_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count);
