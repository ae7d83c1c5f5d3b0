/* The front of (peak, seconds) over given choices, planning as few of them as it takes.
 *
 * Every choice is outlined: programs are built and scheduled, which gives its seconds and a lower bound of
 * its peak. Then those that nothing outlined or planned beats are planned in full, which can only raise their
 * peaks, and so on until every other one is beaten by a planned one. So the front is that of planning all. */
#pragma once

#include "search/search.h"

/* Leaves the front in `points`: peak rising, seconds falling; between equals the more exact one, then the
 * earlier one. Points that cannot be planned, or have a peak above `limit`, are none of it; so *count may
 * become 0. */
status front_keep(const compose_run *r, uint64_t limit, search_point *points, uint32_t *count);

/* Plans the choice of each point, on all threads: peak_bytes 0 says that it cannot be planned. Peaks above
 * `limit` may be lower bounds. */
status front_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count);
