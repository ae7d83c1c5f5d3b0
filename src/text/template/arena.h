/* Memory of one parsing or one rendering: blocks that only grow, are bounded together, and go together. What
 * is kept stays for the next one; how much may be taken does not depend on it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct arena_block arena_block;

/* One block, taken when it is first needed. An arena that outgrew it leaves it as large as would have done.
 */
typedef struct {
    char *data;
    size_t bytes;
} arena_kept;

typedef struct {
    arena_block *last; /* what did not fit into what is kept */
    size_t used, left; /* bytes, of blocks as they are without any that is kept; left in the last of them */
    size_t limit;      /* of used */
    bool may_grow;     /* the caller has a larger one: reaching it is STATUS_NO_FIT */
    arena_kept *kept;  /* NULL: none */
    size_t kept_used;
} arena;

/* `bytes` of room, aligned for any value, not zeroed. STATUS_INVALID (see may_grow) when the limit is
 * reached, STATUS_FAILED when there is no memory. */
status arena_take(arena *a, size_t bytes, void *out);
void arena_close(arena *a);
void arena_forget(arena_kept *k); /* frees what is kept; no arena may use it */
