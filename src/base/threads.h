/* The one thread runtime: a pool of our own. Work is cut by shape into numbered tiles and handed out as
 * threads come free; the order of every summation is fixed by the tile, never by who computes it, so results
 * are the same bits for any number of threads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sums over rows run over tiles of this many consecutive rows, tile after tile, into f32 (docs/design.md). */
enum { THREADS_ROW_TILE = 256 };

/* How many threads take part in the calls that this thread makes: each thread of the program has a number of
 * its own, which begins at 1, so that one can't change under the scratch of another. Within a tile it is that
 * of the call. */
void threads_set(int count); /* at least 1 */
int threads_count(void);

/* Calls body(context, tile, thread) for tile = 0 .. tiles-1, in any order, on all threads; returns when all
 * are done. `thread` in 0 .. threads_count()-1 picks a private part of the scratch. A call from within a
 * tile, or while another thread of the program is in a call, runs its tiles by itself, as thread 0. */
typedef void (*threads_body)(void *context, int64_t tile, int thread);
void threads_for(int64_t tiles, threads_body body, void *context);

/* Seconds of processors that the calling thread and those of the pool have had so far, exact at any instant.
 * (The clock of the whole process knows of its other threads only up to their last tick.) */
double threads_seconds(void);

/* How many processors this process may use: affinity and cgroup quota, at least 1. */
int threads_available(void);

/* From threads_pin to threads_unpin the calling thread stays on a core, and the others of the pool from then
 * on each on another one, where the threads fill the cores that the caller may use; elsewhere, and where it
 * is not allowed, nothing happens. Afterwards the caller may run where it might before. Calls don't nest. */
void threads_pin(void);
void threads_unpin(void);
void threads_pin_allow(bool allowed); /* true at first; for the whole process */
