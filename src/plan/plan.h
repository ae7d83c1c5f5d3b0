/* The plan of a run: every byte of the pool has its place before anything is allocated.
 *
 *     pool = | persistent: weights, moments, gradients, results, buffers | arena: one program at a time |
 *
 * Persistent tensors are shared between programs by name. What is away (ir/graph.h) lies in a pool of its
 * own, a file or the host's memory, and passes through slots in this one (lower/pieces.h). The arena is as
 * large as the largest program's. A plan owns its programs and everything it lists; after plan_make it is
 * const. */
#pragma once

#include "lower/lower.h"
#include "lower/pieces.h"
#include "plan/live.h"

/* Where memory is planned: that of the device which computes; a file; the host's, where that is not the
 * device's. */
enum { POOL_MEMORY, POOL_FILE, POOL_HOST, POOL_COUNT };

typedef struct {
    char name[96];
    uint64_t bytes, offset; /* in its pool; bytes rounded up to LIVE_ALIGN, of what is away to PIECES_PAGE */
    uint8_t pool;
    category category;
    shape shape;  /* of buffers: rank 0 */
    shape global; /* of the whole, of which this rank's part has `shape`; else the same */
    dtype dtype;
    bool by_rows; /* codes of 8 bits: a scale for each row; else for each column */
    bool panels;  /* codes of 4 bits for products of integers (models/weight.h) */
} plan_persistent;

/* Memory of the host that belongs to no graph, such as the loader's read-ahead. */
typedef struct {
    const char *name;
    uint64_t bytes;
} plan_buffer;

/* What is planned in one place. On a CPU the host's pool is empty: the host lives in the device's. */
typedef struct {
    uint64_t persistent_bytes; /* tensors and buffers that stay */
    uint64_t arena_bytes;      /* one program at a time */
    uint64_t runtime_bytes;    /* beside the pool: code, stacks, tables */
} plan_pool;

typedef struct {
    program program;
    live_set live;
    uint64_t *offset;     /* by tensor: its place in the pool */
    uint64_t *scratch;    /* by step: place of its scratch */
    uint64_t arena_bytes; /* of this program */
    live_peak peak;       /* peak.bytes is the lower bound of arena_bytes */
} plan_program;

typedef struct {
    const device *device;   /* that it is for */
    plan_program *programs; /* docs/design.md, "Programs" */
    uint32_t program_count;
    plan_persistent *persistent;
    uint32_t persistent_count;
    plan_pool pools[POOL_COUNT];
    int64_t group;              /* of its programs' graphs: who shares a copy (graph.h) */
    uint64_t lower_bound_bytes; /* of the arena: the most bytes alive at once */
    device_runtime runtime;     /* of the process */
    device_parts beside;        /* of a device apart: its pool's runtime_bytes by what they are */
    uint64_t run_bytes;         /* of running: all that is in the device's memory */
    uint64_t table_bytes;       /* the plan's own graphs and tables: part of runtime.tables */
    uint64_t planning_bytes;    /* of making this plan, before there is a pool */
    uint64_t above_run;         /* planning_bytes over what running takes of the host: in runtime.tables */
    uint64_t peak_bytes;        /* the larger of run_bytes and planning_bytes; the excess is runtime */
    uint64_t by_category[CATEGORY_COUNT]; /* at the peak; sums up to peak_bytes */
    uint32_t peak_program;                /* the one whose arena is fullest */
    const char *folder;                   /* where the file is to be; the caller's */
    uint64_t staging_bytes;               /* of the buffer PLAN_STAGING; 0: the host reaches all without */
    uint64_t slot_bytes;                  /* of each slot in the buffer PLAN_SLOTS */
    uint32_t slots;
    uint32_t ring;         /* how many slots the buffer PLAN_RING has; 0: there is no file behind the host */
    uint64_t ring_calls;   /* the most calls of the host that its lanes are given until it waits for them */
    uint64_t values_bytes; /* of what programs have away, in plan_away_pool */
    pieces_size pieces;    /* the most of any program */
    int threads;           /* that scratch is planned for: run with no more */
} plan;

/* The buffer that what is away passes through; its slots begin at a multiple of PIECES_PAGE. */
#define PLAN_SLOTS "state in passing"

/* The buffer through which the host of a device apart reads and writes values, and what other ranks have. */
#define PLAN_STAGING "values in passing"

/* The buffer of the host's between a device apart and a file; its slots are as large as those of PLAN_SLOTS.
 */
#define PLAN_RING "files in passing"

enum { PLAN_CALL_BYTES = 80 }; /* of bookkeeping for each of ring_calls */

/* Has another rank other parts of it (graph_is_share)? That of the one at
 * place r of a group begins at byte r times those of `shape`. */
static inline bool plan_is_share(const plan_persistent *x) { return !shape_equal(&x->shape, &x->global); }

/* Of any tensor. */
bool plan_has_shares(const plan *p);

/* Persistent tensors of a category, as they are where nobody shares them. */
typedef struct {
    uint64_t tensors, bytes;
} plan_whole;
plan_whole plan_whole_of(const plan *p, category c);

/* The size of the slots' buffer for so many pieces of at most so many bytes. */
uint64_t plan_slots_bytes(uint64_t pieces, uint64_t slot_bytes);

/* Bytes of bookkeeping that running a program of this graph takes. */
uint64_t plan_graph_bytes(const graph *g);

/* The same of the largest graph on the way to this one (graph.parent): making it takes that. */
uint64_t plan_growing_bytes(const graph *g);

/* Memory that one thread holds while it makes a plan with so many bytes of tables. */
uint64_t plan_making_bytes(uint64_t table_bytes);

/* The room of graphs whose plan takes no more than so much memory while it is made, code included. */
graph_room plan_graph_room(uint64_t memory);

/* What a plan is made for, beside programs. */
typedef struct {
    const plan_buffer *buffers;
    uint32_t buffer_count;
    int threads;
    const device *device; /* NULL: device_default */
} plan_options;

/* Takes the programs over, also on failure. STATUS_INVALID for what the device can't do. */
status plan_make(program *programs, uint32_t program_count, const plan_options *o, plan *p);
/* The same without places in the arena, whose size is its lower bound: so peak_bytes is at most that of
 * plan_make, and mostly the same. Takes a third of the time; such a plan can't be run. */
status plan_outline(program *programs, uint32_t program_count, const plan_options *o, plan *p);
/* Adds to the runtime reserve what the caller will hold outside of the pool. */
void plan_reserve(plan *p, uint64_t bytes);
/* So much memory was held before there was a pool: planning_bytes is at least that. */
void plan_hold(plan *p, uint64_t bytes);
void plan_close(plan *p);

/* The persistent tensor or buffer with this name; NULL when there is none. */
const plan_persistent *plan_find(const plan *p, const char *name);

/* The calls that a task takes, in the order of its samples: how many, and which program call `number` runs
 * from which sample on. */
typedef struct {
    uint32_t program;
    int64_t first;
} plan_call;
int64_t plan_calls(const plan *p, program_task task);
plan_call plan_call_of(const plan *p, program_task task, int64_t number);

/* What is allocated in a place, and what is taken there in all. */
static inline uint64_t plan_allocated(const plan *p, int pool) {
    return p->pools[pool].persistent_bytes + p->pools[pool].arena_bytes;
}
static inline uint64_t plan_taken(const plan *p, int pool) {
    return plan_allocated(p, pool) + p->pools[pool].runtime_bytes;
}
/* The pool where what is away waits. */
static inline int plan_away_pool(const plan *p) { return p->device->apart ? POOL_HOST : POOL_FILE; }
/* What is taken beside the memory that computes: of the file, or by the host of a device apart. What is
 * `filed` (plan/away.h) counts for nothing there. */
static inline uint64_t plan_away_bytes(const plan *p) { return plan_taken(p, plan_away_pool(p)); }
static inline uint64_t plan_pool_bytes(const plan *p) { return plan_allocated(p, POOL_MEMORY); }
static inline uint64_t plan_file_bytes(const plan *p) { return plan_allocated(p, POOL_FILE); }
/* The pool where the host's own memory is. */
static inline int plan_host_pool(const plan *p) { return p->device->apart ? POOL_HOST : POOL_MEMORY; }
static inline uint64_t plan_runtime_bytes(const plan *p) {
    return p->runtime.code + p->runtime.threads + p->runtime.tables;
}
