/* Runs a plan. exec_open makes the one allocation, binds every kernel call to its addresses, and from then on
 * nothing allocates: exec_run only calls kernels. A plan serves for ever. */
#pragma once

#include "models/model.h"
#include "plan/plan.h"

typedef enum {
    EXEC_SEPARATE = 1, /* an allocation per storage, for the address sanitizer */
    EXEC_POISON = 2,   /* NaN into memory before its first write and after its last read */
    EXEC_OBSERVE = 4,  /* measure what is alive, by category, from the calls themselves */
} exec_mode;

/* What was alive, as the calls showed it: from a buffer's first write to its last read, read from addresses
 * and the graph, not from the plan's tables. */
typedef struct {
    uint64_t arena_live_bytes;            /* at the highest step of any program */
    uint32_t program, step;               /* where */
    uint64_t by_category[CATEGORY_COUNT]; /* there; persistent tensors included */
    uint64_t pools[POOL_COUNT]; /* what is held in each, as who gave it counts: whole pages of memory */
    device_parts beside;        /* of a device apart: what the process holds of its memory beside the pool, */
    uint64_t moved_bytes; /* which is so much more or less than when the plan was bound, and should be none */
} exec_measured;

typedef struct exec exec;

status exec_open(const plan *p, unsigned modes, exec **out); /* the plan must outlive it */
void exec_close(exec *e);

/* A value that the host may reach between runs, found once by its name. The host never has its address. */
typedef struct {
    uint64_t bytes; /* 0: there is none of this name */
    uint32_t program, index;
} exec_value;

/* What program number `which` of the plan reads from the host. To be written before each run: inputs share
 * memory with later values. */
exec_value exec_input(const exec *e, uint32_t which, const char *name);
/* A kept result (graph_keep) of the program: as it left it, until the next exec_run. */
exec_value exec_output(const exec *e, uint32_t which, const char *name);
/* A persistent tensor, wherever it is; zero at opening. */
exec_value exec_state(const exec *e, const char *name);
exec_value exec_state_of(const exec *e, const plan_persistent *x); /* of this plan, and no buffer */
exec_value exec_own(const exec *e, const plan_persistent *x); /* the same: of a share this rank's alone */

/* Copies some of a value's bytes, from byte `first` on; a value that there is none of is not written. Only
 * what lies in a file can fail. */
status exec_write(exec *e, const exec_value *x, uint64_t first, const void *from, uint64_t bytes);
status exec_read(exec *e, const exec_value *x, uint64_t first, void *into, uint64_t bytes);
status exec_write_number(exec *e, const exec_value *x, float number);
/* Several small values whole, by one copy where they lie side by side (plan/scalars.h). */
typedef struct {
    exec_value value;
    const void *from;
} exec_item;
enum { EXEC_ITEMS = 8 }; /* at most */
status exec_write_items(exec *e, const exec_item *items, uint32_t count);
status exec_clear(exec *e, const exec_value *x);                       /* all bytes 0 */
status exec_read_number(exec *e, const exec_value *x, double *number); /* 0 where there is none */

/* The same without a copy where the host can have one part after the other. exec_view: what it holds from
 * byte `first` on, as much as there is room for; exec_room: where to write that, exec_put: it is written. A
 * part lasts until the next call of any of these. */
typedef struct {
    void *data;
    uint64_t bytes;
} exec_part;
status exec_view(exec *e, const exec_value *x, uint64_t first, exec_part *part);
/* At most so many bytes of it. */
status exec_view_some(exec *e, const exec_value *x, uint64_t first, uint64_t bytes, exec_part *part);
status exec_room(exec *e, const exec_value *x, uint64_t first, exec_part *part);
status exec_put(exec *e, const exec_value *x, uint64_t first, const exec_part *part);

/* Of what ranks share (plan_is_share) exec_state is the whole. What is written of others' parts is passed
 * over: exec_is_here says whether a byte is this rank's. exec_view brings them while ranks meet: all call
 * exec_meet, `writers` of them may look at values then, and when a rank has looked at all that it wanted, or
 * has failed (`mine`), it calls exec_served, in which it has what others want until none wants anything. Then
 * that comes back with `mine`, or with what went wrong here since. Where another rank has failed it is
 * STATUS_INTERRUPTED, and so is looking: comm_agree says more. With one rank both do nothing. */
bool exec_is_here(const exec *e, const exec_value *x, uint64_t first);
void exec_meet(exec *e, int writers);
status exec_served(exec *e, status mine);

/* A buffer that the plan holds for the host (plan_buffer), zeroed at opening; NULL: there is none. */
void *exec_buffer(const exec *e, const char *name);

void exec_run(exec *e, uint32_t which);

/* Of a device apart: what moves between ranks in a run is moved once, with whatever is in memory, so that
 * what the transport takes is seen before the first step; only what is persistent is not written. Of other
 * devices nothing. */
void exec_rehearse(exec *e);

/* Of a device apart what stands between these two is given to its lanes in one go: values that are written,
 * programs that run, numbers that are asked for. The host waits once, in exec_end, and reads nothing before.
 * What exec_write has from a buffer of the plan has to stay there until then. Of other devices each is done
 * where it stands. */
void exec_begin(exec *e);
void exec_end(exec *e);
/* What a number is when all of that is done: exec_answer says it after exec_end, before anything else is
 * asked of `e`; 0 where there is none. */
typedef struct {
    exec_value value;
    const float *at; /* NULL: where the value is */
} exec_question;
void exec_ask(exec *e, const exec_value *values, exec_question *questions, uint32_t count);
status exec_answer(exec *e, const exec_question *q, double *number);

/* STATUS_FAILED with a sentence when state could not be read from its file or written to it since opening:
 * what was computed since is worth nothing. */
status exec_failed(const exec *e);

/* From now on each run of a program writes count + 1 moments, in seconds of exec_now: before its first kernel
 * and after each. Runs follow each other in `moments`; one that the room doesn't hold leaves none. Such runs
 * are neither observed nor poisoned. NULL ends it. */
status exec_time(exec *e, double *moments, uint64_t room);
uint64_t exec_timed(const exec *e); /* moments written so far */
double exec_now(void);

/* Of the programs that ran since opening with EXEC_OBSERVE. */
status exec_measure(const exec *e, exec_measured *out);

/* Bytes that were allocated in the pool where the host is: plan_allocated, rounded up to pages. */
uint64_t exec_pool_bytes(const exec *e);

/* The most that was resident of this process, less the memory of a device that it emulates. `e` may be NULL.
 */
uint64_t exec_resident_peak(const exec *e);

/* What the process holds beside its pool, compared with what the plan has reserved for it: STATUS_NO_FIT when
 * that is more. `*bytes` in any case. */
status exec_check_reserve(const exec *e, uint64_t *bytes);

/* The weights wherever they lie, between runs; memory_free the list. */
status exec_weights(exec *e, model_weight **list, uint32_t *count);

/* Where a run went wrong: runs the program again, step by step to its end (other ranks wait for what it sends
 * them), and names the first node whose results hold NaN or infinity; false when all are finite. The inputs
 * must have been handed in again. Persistent values are no longer those of the run afterwards. */
typedef struct {
    char op[32], tensor[96];
    int32_t site;
    phase phase;
    int64_t call;  /* of the run's step, as the caller counts, */
    uint32_t step; /* and of the program: where it was met */
} exec_fault;
bool exec_find_fault(exec *e, uint32_t which, exec_fault *fault);
