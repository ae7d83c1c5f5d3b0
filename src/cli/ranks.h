/* Several processes that train together: how the program begins and ends among them. Rank 0 speaks and
 * writes. */
#pragma once

#include "cli/cli.h"
#include "comm/comm.h"

/* Joins the others, before anything is read: opens the transport, and settles what depends on how many there
 * are. With one process it does nothing. */
status ranks_begin(const launch *l, options *o);

/* Makes what every rank found here the same: the rates of rank 0, the smallest budget. */
status ranks_settle(setup *s);

/* `so_far` and the plan of all ranks: STATUS_INVALID where plans differ, or what is trained, or the step that
 * it goes on from. */
status ranks_agree(status so_far, const decision *d, const resume *from);
