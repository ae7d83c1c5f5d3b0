/* Where what is away waits, of a device with memory of its own: in the host's memory as long as that has room
 * for it, the rest in a file. Whatever is filed passes through slots of the host's (PLAN_RING) on its way.
 *
 * In the host's memory stays what is moved most often for its size: what programs have away first, then
 * persistent tensors by how often a step reads and writes them. More room only adds to what stays. */
#pragma once

#include "plan/plan.h"

/* What of plan_away_bytes could be filed. */
uint64_t away_hosted(const plan *p);

/* Files as much as it takes for plan_away_bytes to be at most `limit`; where even that is not enough, all.
 * Places, sizes and predicted seconds are those of the new plan. To be called once, when all else that the
 * host holds is known; a plan that is outlined is as good as one that can be run. */
status away_file(plan *p, uint64_t limit, const device_rates *rates);
