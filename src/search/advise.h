/* What would make a run fit that does not: pins that stand in the way, and the fewest LOSSY techniques that
 * would do it. Names no technique. */
#pragma once

#include "search/search.h"

/* Reads "precision,optimizer-state=8bit" into q->lossy: techniques by their option, all of their LOSSY
 * settings or one. "all": every technique. STATUS_INVALID for what is unknown or needs no allowing. */
status advise_allow(search_request *q, const char *list);

/* The cheapest set of LOSSY settings beside what q allows that meets `budget`: the fewest techniques, among
 * as many the fastest plan. `q` must not be --exact. `*point` is that plan; its peak_bytes are 0 where no set
 * does. `text`: the set as --allow takes it. */
enum { ADVISE_SET_BYTES = 256 };
void advise_lossy(const search_request *q, uint64_t budget, char text[ADVISE_SET_BYTES], search_point *point);

/* What stands in the way of `budget`: options of which each alone, if it is let go, makes it feasible, else
 * all of them together, where that does; and the set above. As text for people; empty when nothing helps. */
enum { ADVISE_BYTES = 768 };
void advise_run(const search_request *q, uint64_t budget, char advice[ADVISE_BYTES]);
