/* Several processes that train together: how the program begins and ends among them. Rank 0 speaks and
 * writes. */
#pragma once

#include "cli/cli.h"
#include "comm/comm.h"

/* Joins the others, before anything is read: opens the transport, sees what it takes, looks whether all are
 * alike, and settles what depends on how many there are. With one process it does nothing. */
status ranks_begin(const launch *l, options *o, output *people);
void ranks_end(void); /* also after failure, and where none began */

/* Makes what every rank found here the same: the rates of rank 0, the smallest budget. */
status ranks_settle(setup *s);

/* `so_far`: how each rank has come to here, rank 0 with a decision. All make its plan. STATUS_INVALID where
 * plans differ all the same, or what is trained, or the step that it goes on from. `from` NULL: the setup is
 * of validation alone, or of a profile. */
status ranks_agree(status so_far, setup *s, decision *d, const resume *from);
