/* Forward values that wait: made and read in forward, and not read again before backward. For techniques that
 * hold something else of them in between (a copy in a file, a code of fewer bits) and give later phases
 * something that is made from that.
 *
 *     waiting_time *times = waiting_find(in, takes);
 *     waiting_rewrite(&r, times, &(waiting_way){ leave, fetch });
 */
#pragma once

#include "ir/rewrite.h"

/* Of an owner of storage; what is read through a view of it is read. */
typedef struct {
    node_id last; /* of forward that reads or makes it; 0: it does not wait, or has to stay */
    node_id next; /* the first of a later phase that reads it */
} waiting_time;

/* Whether the technique wants tensor t, which waits at that time. */
typedef bool waiting_takes(const graph *g, tensor_id t, const waiting_time *time);

/* By tensor of g, to be freed with memory_free; NULL: no memory. What the host reads stays, and so does what
 * others are parts of. */
waiting_time *waiting_find(const graph *g, waiting_takes *takes);
bool waiting_any(const graph *g, waiting_takes *takes);

typedef struct {
    /* Adds what is held of tensor t of the old graph in between, after its last use there; returns its id. */
    tensor_id (*leave)(rewrite *r, tensor_id t);
    /* Adds what is read in the place of t, before its next use, from what is held. */
    tensor_id (*fetch)(rewrite *r, tensor_id t, tensor_id held);
} waiting_way;

/* Copies the graph that r was opened with. */
void waiting_rewrite(rewrite *r, const waiting_time *times, const waiting_way *way);
