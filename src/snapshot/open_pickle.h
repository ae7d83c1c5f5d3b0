/* Snapshots themselves: pickles. */
#pragma once

#include "snapshot/snapshot.h"
#include "snapshot/source.h"

/* Into `s`, whose tables are open. */
status open_pickle(source *from, snapshot *s);
