/* The front of (peak, seconds) over given choices, planning as few of them as it takes.
 *
 * Every choice is outlined: programs are built and scheduled, which gives its seconds and a lower bound of
 * its peak. Then those that nothing outlined or planned beats, and that are wished for, are planned in full,
 * which can only raise their peaks, and so on until all that is wished for is planned. So it is what the
 * front of planning all has there. Of a wish the points of the first stem answer first; what of the others is
 * seen to be out of the reach of that, while it is outlined, is given up. */
#pragma once

#include "search/search.h"

/* Leaves the points of the front that are wished for (NULL: all of them) in `points`: peak rising, seconds
 * falling; between equals the more exact one, then the earlier one. Points that cannot be planned, or have a
 * peak above `limit`, are none of it; so *count may become 0. `*planned`: how many were planned. */
status front_keep(const compose_run *r, uint64_t limit, const search_wish *w, search_point *points,
                  uint32_t *count, uint32_t *planned);

/* Plans the choice of each point, on all threads: peak_bytes 0 says that it cannot be planned. Peaks above
 * `limit` may be lower bounds. */
status front_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count);
