/* What the executor's files share: exec.c binds and runs, observe.c measures, timing.c takes times, debug.c
 * poisons and looks for faults, transfer.c moves what is away, capture.c has
 * devices start programs as a whole. */
#pragma once

#include "comm/comm.h"
#include "exec/exec.h"
#include "exec/transfer.h"

typedef struct {
    tensor_id *home;        /* by owner: whose buffer it turned out to live in; 0: its own */
    uint32_t *first, *last; /* by owner: observed first write and last read, in steps */
    uint8_t *seen;          /* by owner: who made and read it (observe.c) */
    bool done;
    uint64_t most_bytes; /* of this program's own memory, at the step where most is alive */
    uint32_t most_step;
    uint64_t by_category[CATEGORY_COUNT]; /* there */
} observation;

typedef struct {
    const plan_program *plan;
    op_call *calls;     /* by step */
    op_arg *args;       /* of all calls, one after the other */
    void **blocks;      /* separate mode: by storage of plan->live */
    uint16_t *together; /* by step: so many are run at once (schedule/sweep.h) */
    void *captured;     /* all its calls, as the device keeps them; NULL: each is started by itself */
    observation seen;
} bound_program;

/* Moments of the runs since exec_time, one run after the other; moments NULL: no times are taken. */
typedef struct {
    double *moments;
    uint64_t room, count;
} timing;

struct exec {
    const plan *plan;
    unsigned modes;
    device_pool pool;        /* of plan->device; unused in separate mode */
    device_pool host;        /* beside it where the device is apart: the host's buffers, and what is away */
    device_parts begun;      /* beside the pool of a device apart, when that had been opened */
    void **persistent;       /* separate mode: by plan->persistent */
    bound_program *programs; /* by plan->programs */
    timing timed;
    transfer *transfer; /* NULL: nothing is away */
    status seen;        /* of what observes; heeded by exec_failed */
    bool in_step;       /* between exec_begin and exec_end, of a device apart */
    uint64_t passing;   /* bytes of the staging buffer that are under way since then */
    struct {
        comm_piece *pieces; /* by rank; NULL: nothing is shared, so nothing is asked for */
        int writers;
        bool goes_on;
    } meeting;            /* meeting.c */
    uint64_t staged_from; /* where in the staging buffer room begins */
};

/* Looks at some of a value that is this rank's own: as exec_view_some, and nobody is met. */
status exec_view_here(exec *e, const exec_value *x, uint64_t first, uint64_t bytes, exec_part *part);

/* Where this rank is among those that have shares of one copy, and the first of these. `group`: graph.h. */
static inline int exec_place_in(int64_t group) {
    return group ? comm_world().rank % (int)group : comm_world().rank;
}
static inline int exec_first_of(int64_t group) { return comm_world().rank - exec_place_in(group); }

/* ---- capture.c ---- */

/* All programs that can be, before the first step: what the device keeps of them is beside its pool then. */
status capture_open(exec *e);
void capture_close(exec *e);
/* False: it was not captured, or is to be observed call by call. */
bool capture_run(exec *e, const bound_program *b);

/* ---- meeting.c ---- */

status meeting_open(exec *e);
void meeting_close(exec *e);

/* Where another rank has something. */
typedef struct {
    int rank;
    uint32_t index; /* of the plan's persistent tensors */
    uint64_t first; /* byte of that rank's part */
} meeting_place;
/* Before a part is looked at, which has room: `here` or elsewhere, from where it comes. */
status meeting_view(exec *e, bool here, const meeting_place *at, exec_part *part);

/* Runs one step of program b. */
void exec_step(exec *e, const bound_program *b, uint32_t step);
/* And those that are run at once with it; how many they are in all. */
uint32_t exec_sweep(exec *e, const bound_program *b, uint32_t step);
/* Calls the kernel of a step, with these arguments. */
void exec_call(const device *d, const lower_step *step, const op_call *call);
/* Before the first of them. */
void exec_begin_program(exec *e, const bound_program *b);

/* Opens and closes the memory of the plan's pools. */
status exec_pools_open(exec *e);
void exec_pools_close(exec *e);

/* Address of a persistent tensor or buffer; NULL when the plan has none of this name in memory. */
void *exec_persistent(const exec *e, const char *name);

/* Address of a tensor of program b; NULL where that is away. */
void *exec_address(const exec *e, const bound_program *b, tensor_id t);

status observe_open(observation *o, const program *p);
void observe_close(observation *o);
void observe_call(observation *o, const program *p, uint32_t step, const op_call *call);
/* After the last step. `together`: scratch is kept until the end of a sweep. */
status observe_finish(observation *o, const program *p, const uint16_t *together);
/* Then, of the owner of a storage: was it a buffer of its own, and what was it for? */
bool observe_seen(const observation *o, tensor_id owner);
category observe_category(const observation *o, const graph *g, tensor_id owner);

/* Runs b with a moment per call; false, with nothing done, where the moments have no room. */
bool timing_run(exec *e, const bound_program *b);

void debug_poison_before(const exec *e, const bound_program *b, uint32_t step);
void debug_poison_after(const exec *e, const bound_program *b, uint32_t step);
