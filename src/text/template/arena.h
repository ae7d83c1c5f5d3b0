/* Memory of one parsing or one rendering: blocks that only grow, are bounded together, and go together. */
#pragma once

#include <stddef.h>

#include "base/status.h"

typedef struct arena_block arena_block;

typedef struct {
    arena_block *last;
    size_t used, limit; /* bytes, of all blocks */
} arena;

/* `bytes` of room, aligned for any value, not zeroed. STATUS_INVALID when the limit is reached, STATUS_FAILED
 * when there is no memory. */
status arena_take(arena *a, size_t bytes, void *out);
void arena_close(arena *a);
