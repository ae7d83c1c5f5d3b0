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
    uint64_t arena_live_bytes; /* at the highest step of any program */
    program_kind program;
    uint32_t step;
    uint64_t by_category[CATEGORY_COUNT]; /* there; persistent tensors included */
} exec_measured;

typedef struct exec exec;

status exec_open(const plan *p, unsigned modes, exec **out); /* the plan must outlive it */
void exec_close(exec *e);

/* Persistent tensor or buffer, zeroed at opening; NULL when the plan has none of this name in memory. */
void *exec_persistent(const exec *e, const char *name);

/* A persistent tensor part by part, wherever it is, between runs. exec_view: what it holds from byte `first`
 * on, as much as there is room for; exec_room: where to write that, exec_put: it is written. Parts of what is
 * in a file share one buffer, so each ends the one before; parts of memory are all of it. */
typedef struct {
    void *data;
    uint64_t bytes;
} exec_part;
status exec_view(exec *e, const plan_persistent *x, uint64_t first, exec_part *part);
status exec_room(exec *e, const plan_persistent *x, uint64_t first, exec_part *part);
status exec_put(exec *e, const plan_persistent *x, uint64_t first, const exec_part *part);

/* Where the host writes an input before running a program; NULL when the program does not read it. Valid
 * until the program runs: inputs share memory with later values. */
void *exec_input(const exec *e, program_kind k, const char *name);

/* A kept result (graph_keep); NULL when there is none of this name. Valid until the next exec_run. */
const void *exec_output(const exec *e, program_kind k, const char *name);

void exec_run(exec *e, program_kind k);

/* STATUS_FAILED with a sentence when state could not be read from its file or written to it since opening:
 * what was computed since is worth nothing. */
status exec_failed(const exec *e);

/* From now on each run of a program writes count + 1 moments, in seconds of exec_now: before its first kernel
 * and after each. Runs follow each other in `moments`; one that the room doesn't hold leaves none. Such runs
 * are neither observed nor poisoned. NULL ends it. */
void exec_time(exec *e, double *moments, uint64_t room);
uint64_t exec_timed(const exec *e); /* moments written so far */
double exec_now(void);

/* Of the programs that ran since opening with EXEC_OBSERVE. */
status exec_measure(const exec *e, exec_measured *out);

/* Bytes of the pool that were allocated: plan_pool_bytes rounded up to pages. */
uint64_t exec_pool_bytes(const exec *e);

/* What the process holds beside its pool, compared with what the plan has reserved for it: STATUS_NO_FIT when
 * that is more. `*bytes` in any case. */
status exec_check_reserve(const exec *e, uint64_t *bytes);

/* The weights wherever they lie, between runs; memory_free the list. */
status exec_weights(exec *e, model_weight **list, uint32_t *count);

/* Where a run went wrong: runs program k again, step by step, and names the first node whose results hold NaN
 * or infinity; false when all are finite. The inputs must have been handed in again. Persistent values are
 * no longer those of the run afterwards. */
typedef struct {
    char op[32], tensor[96];
    int32_t site;
    phase phase;
} exec_fault;
bool exec_find_fault(exec *e, program_kind k, exec_fault *fault);
