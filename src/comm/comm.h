/* The ranks of a run and what they do together. A process belongs to one set of ranks: it is opened once, by
 * the program, before anything is planned. Without that there is one rank.
 *
 * Movements (comm_kind) are each begun by `start` and awaited by `wait`; in between a thread of its own moves
 * the data, and naps while it waits for others. Movements are done in the order of their starts, which is the
 * same on all ranks. Sums are nobody's business here: who wants one adds what has come, in the order of
 * ranks. */
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

/* Opens MPI where `l` says that several processes were started by it, and makes all-to-all and all-gather
 * once, so that what these take of memory is seen before anything is planned. STATUS_INVALID with a sentence
 * where that can't be; where this rank lacks something of its own, comm_is_broken: comm_abort ends the
 * others. comm_close also after failure. */
status comm_open(const launch *l);
void comm_close(void);

/* Nobody waits for another rank longer than this; at first for ever. comm_open itself does. */
void comm_limit(double seconds);

/* Ends all ranks at once, with this exit code; comes back only where there is one. */
void comm_abort(int code);

/* What the transport takes of memory in a process of so many ranks: bytes that plans reserve. 0 for one.
 * Where the ranks that are here were seen to take more (comm_reserve_seen), it is that. */
uint64_t comm_reserve(int64_t ranks);

/* Behind comm_open: the most that a rank's resident memory has grown by, the same number on all of them. */
void comm_reserve_seen(uint64_t bytes);

/* GATHER: `from` has this rank's share, `to` gets all ranks' shares, one behind the other. EXCHANGE: share r
 * of `from` goes to rank r; `to` has a place of `share` bytes for each rank, in which this rank's share of
 * what that one has arrives. The last shares may be shorter, or empty, where `whole` bytes are no more:
 * behind them places are cleared. `some` not 0: that many bytes of each share move, from byte `first` of it
 * on, and places are so large. PIECES: `from` is a list of `share` of them (comm_pass).
 *
 * Of `whole` bytes from rank to rank, without a share: FROM_BEFORE, what the rank before this one sends as
 * TO_NEXT, `some` not 0: that many of them, from `first` on; the first one gets nothing, and the last one
 * sends nothing. AROUND: what the last one has goes to
 * the first. FROM_LAST: it goes to all. SPREAD and COLLECT have it go to all in two steps: of as many
 * pieces as ranks, aligned to COMM_PIECE bytes, one goes to each; then each sends its own to all others but
 * the last, which has them. So nobody sends 2 * `whole` bytes, however many there are, unless pieces are as
 * small as that.
 *
 * `group` not 0: ranks fall into groups of so many that follow each other. GATHER and EXCHANGE are between
 * those of a group, whose shares they are; what passes from rank to rank goes from group to group, between
 * those who have the same place in theirs. */
typedef enum {
    COMM_GATHER,
    COMM_EXCHANGE,
    COMM_PIECES,
    COMM_FROM_BEFORE,
    COMM_TO_NEXT,
    COMM_AROUND,
    COMM_FROM_LAST,
    COMM_SPREAD,
    COMM_COLLECT
} comm_kind;
enum { COMM_PIECE = 16 };
typedef struct {
    comm_kind kind;
    const void *from;
    void *to;
    uint64_t whole, share; /* bytes: of all, and of a rank */
    uint64_t first, some;
    int64_t group;
} comm_order;

/* `from` is not to be changed, and `to` not to be touched, until comm_wait(to) is back. Neither fails: where
 * moving does, comm_failed says so, and what was to come is worth nothing. */
void comm_start(const comm_order *o);
void comm_wait(const void *to);
status comm_failed(void);
bool comm_is_broken(void); /* the same without a sentence */
/* From now on nothing is moved: this rank can't go on, and says why. */
void comm_break(const char *sentence);

/* What was moved so far, by this rank's thread: of device memory apart nothing. To be asked while nothing is
 * under way. */
typedef struct {
    uint64_t movements, bytes, sent; /* bytes: that came from others, and that went to them */
    double seconds;                  /* from a movement's turn to its end: others are waited for in it, too */
} comm_moved;
comm_moved comm_moved_so_far(void);

enum { COMM_AT_ONCE = 16 }; /* movements that may be under way */

/* By rank: movements from now on are between this one and those alone; NULL: all. For measuring: all ranks
 * call it, while nothing is under way. */
void comm_only(const bool *with);

/* ---- in the memory of a device apart ----
 * There NCCL moves, on a lane of the device's own: a movement is put there when it is started, and begins
 * when all that computing was given before has been done; what computing is given behind the wait begins when
 * it is over. The host waits for neither. comm knows no devices: whoever opens one says how its lanes are
 * asked. */
typedef struct {
    const void *device; /* handed to each of these */
    void *stream;       /* the lane as NCCL takes it */
    void (*begin)(
        const void *device); /* what it is given from now on begins when computing has come so far */
    uint64_t (*mark)(const void *device);              /* an event: it has done all that it was given */
    void (*after)(const void *device, uint64_t event); /* what computing is given now begins then */
    bool (*happened)(const void *device, uint64_t event);

    /* Between runs, for words where there is no MPI: `words` is memory of the device for them, of
     * comm_words_bytes; `open` and `shut` stand around what the lane is given. */
    void *words;
    void (*open)(const void *device);
    void (*shut)(const void *device);
    void (*put)(const void *device, void *to, const void *from, uint64_t bytes);
    void (*get)(const void *device, void *to, const void *from, uint64_t bytes);
} comm_lane;
uint64_t comm_words_bytes(int world);

/* All ranks call it, behind comm_open where MPI has started them, else instead of it: joins them by NCCL,
 * which rank 0 introduces by MPI, or by the address in NCCL_COMM_ID (without it the port behind MASTER_PORT).
 * STATUS_INVALID with a sentence where that can't be. */
status comm_join(const launch *l, const comm_lane *lane);

/* As comm_start and comm_wait, of device memory: this rank's own share is left alone, and so is what lies
 * behind a shorter one. Of a gathering it is in its place in `to` already. With one rank nothing is to move.
 */
void comm_start_apart(const comm_order *o);
void comm_wait_apart(const void *to);

/* Before the host waits for the device: all that is under way has arrived, or comm_failed says why not, and
 * nothing is under way any more. */
void comm_settle(void);

/* What NCCL takes in a process of so many ranks, of the device's memory and of the host's: bytes that plans
 * reserve. Neither was ever measured. */
typedef struct {
    uint64_t device, host;
} comm_reserved;
comm_reserved comm_reserve_apart(int64_t ranks);

/* ---- what hosts say to each other ---- */

/* None of this takes memory: where a rank had none, the others would wait for what it can't say. The words'
 * own room, of COMM_WORD bytes a rank, is taken when ranks begin, as a part of the transport's memory. */

/* All ranks' `mine`, of `bytes` each, into `all`; at once. */
status comm_share(const void *mine, void *all, uint64_t bytes);
/* The same of at most COMM_WORD bytes each, in the words' own room: `*all` is there until anything is said
 * again. */
enum { COMM_WORD = 2048 };
status comm_hear(const void *mine, uint64_t bytes, const void **all);
/* Some bytes of one rank for another; these two alone have addresses for them. */
typedef struct {
    int from, to;
    const void *what;
    void *into;
    uint64_t bytes;
} comm_piece;
/* All of them at once. All ranks call it with the same list but for the addresses, in which one rank has at
 * most one piece for another, and none for itself. */
status comm_pass(const comm_piece *list, int count);
/* Rank 0's, for all. */
status comm_tell(void *what, uint64_t bytes);

/* All ranks call it. The status of all: that of the first rank on which it is none of STATUS_OK, with its
 * sentence, on every one. */
status comm_agree(status mine);
