/* Private pools, as those of CUDA graphs. */
#pragma once

#include "snapshot/snapshot.h"

/* Events of older versions do not tell of their pools, and segments at the end do: what lies in one of a
 * private pool is taken to be of that pool. Before play_finish. */
status pools_infer(snapshot *s);
