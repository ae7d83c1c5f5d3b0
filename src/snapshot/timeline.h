/* Memory timelines that PyTorch's profiler exports: bytes by category over time, with no addresses and no
 * frames.
 *
 * Raw ones are rows of [time, action, bytes, category], one for each thing that happens; the others are
 * [times, sizes], a row of sizes for each time. Of neither it is known which allocation ends: of those that
 * have the size and category the youngest does, so sums are exact and lifetimes are not.
 *
 * Source: torch/profiler/_memory_profiler.py. */
#pragma once

#include "io/json_stream.h"
#include "snapshot/roles.h"

/* Behind the first "[", when another one comes. */
status timeline_read(json_stream *j, snapshot *s);

/* What the timeline says of an allocation, whose stack is the category's. */
roles_role timeline_role(uint32_t stack);
