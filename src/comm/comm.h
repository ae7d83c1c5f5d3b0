/* The ranks of a run and what they do together. A process belongs to one set of ranks: it is opened once, by
 * the program, before anything is planned. Without that there is one rank.
 *
 * Two movements, each begun by `start` and awaited by `wait`; in between a thread of its own moves the data,
 * and naps while it waits for others. Movements are done in the order of their starts, which is the same on
 * all ranks. Sums are nobody's business here: who wants one adds what has come, in the order of ranks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/launch.h"

typedef struct {
    int rank, world; /* this one, counted from 0; how many there are */
} comm_ranks;

/* One rank until comm_open. */
comm_ranks comm_world(void);

/* Opens MPI where `l` says that several processes were started by it. STATUS_INVALID with a sentence where
 * that can't be. comm_close also after failure. */
status comm_open(const launch *l);
void comm_close(void);

/* Nobody waits for another rank longer than this; at first for ever. */
void comm_limit(double seconds);

/* Ends all ranks at once, with this exit code; comes back only where there is one. */
void comm_abort(int code);

/* What the transport takes of memory in a process of so many ranks: bytes that plans reserve, as measured
 * after each kind of movement. 0 for one. */
uint64_t comm_reserve(int64_t ranks);

/* GATHER: `from` has this rank's share, `to` gets all ranks' shares, one behind the other. EXCHANGE: share r
 * of `from` goes to rank r; `to` has a place of `share` bytes for each rank, in which this rank's share of
 * what that one has arrives. The last shares may be shorter, or empty, where `whole` bytes are no more:
 * behind them places are cleared. */
typedef enum { COMM_GATHER, COMM_EXCHANGE } comm_kind;
typedef struct {
    comm_kind kind;
    const void *from;
    void *to;
    uint64_t whole, share; /* bytes: of all, and of a rank */
} comm_order;

/* `from` is not to be changed, and `to` not to be touched, until comm_wait(to) is back. Neither fails: where
 * moving does, comm_failed says so, and what was to come is worth nothing. */
void comm_start(const comm_order *o);
void comm_wait(const void *to);
status comm_failed(void);
bool comm_is_broken(void); /* the same without a sentence */

enum { COMM_AT_ONCE = 16 }; /* movements that may be under way */

/* All ranks' `mine`, of `bytes` each, into `all`; at once. */
status comm_share(const void *mine, void *all, uint64_t bytes);
/* Rank 0's, for all. */
status comm_tell(void *what, uint64_t bytes);

/* All ranks call it. The status of all: that of the first rank on which it is none of STATUS_OK, with its
 * sentence, on every one. */
status comm_agree(status mine);
