/* A snapshot of PyTorch's allocator, as torch.cuda.memory._dump_snapshot writes it: what was allocated and
 * freed, when, by which lines of code, and which segments there are at the end. Traces and memory timelines
 * of PyTorch's profiler are read into the same (kineto.h, timeline.h); these have no segments.
 *
 * Keys are found by name and others passed over, so that files of all versions are read. Events are played
 * while they are read: of an allocation with its free one `snapshot_piece` of 24 bytes stays, of a stack of
 * frames one copy. So a file is held in about an eighth of its size. Times are those of the file;
 * instants are numbers of events, from 1; 0 is before the first.
 *
 * Source: the type Snapshot in torch/cuda/memory.py; c10/cuda/CUDACachingAllocator. */
#pragma once

#include "base/array.h"
#include "io/pickle.h"
#include "snapshot/addresses.h"
#include "snapshot/stacks.h"

enum { SNAPSHOT_UNTOLD = -1, SNAPSHOT_CPU = 0, SNAPSHOT_STREAMS = 1 << 15 };
enum { SNAPSHOT_NEVER = 0xffffffff }; /* an instant that does not come */

/* An allocation. Its bytes are those that were asked for. */
typedef struct {
    uint32_t born, died;              /* instants; born 0: before the recording */
    uint64_t bytes : 40, stack : 24;  /* of stacks */
    uint64_t address : 48, lane : 15; /* lane: of lanes */
    uint64_t waited : 1;              /* a stream still had it when it was let go */
} snapshot_piece;

typedef enum {
    SNAPSHOT_SEGMENT_ALLOC,
    SNAPSHOT_SEGMENT_FREE,
    SNAPSHOT_SEGMENT_MAP,
    SNAPSHOT_SEGMENT_UNMAP,
    SNAPSHOT_OOM,
    SNAPSHOT_MORE, /* so many bytes more are reserved, and where is not told */
    SNAPSHOT_LESS
} snapshot_turn_kind;

/* What the allocator did with the device. */
typedef struct {
    uint32_t at, stack;
    uint64_t address, bytes; /* of an oom: what was asked for, and address is what the device had free */
    uint16_t lane;
    uint8_t kind;    /* snapshot_turn_kind */
    bool free_known; /* of an oom: the file tells what the device had free; else address is 0 */
} snapshot_turn;

typedef struct {
    uint64_t address, bytes, active;
    uint32_t stream, first_block, blocks; /* stream: of lanes */
    int32_t device;
    bool small, expandable;
} snapshot_segment;

typedef struct {
    uint64_t address, bytes, asked;
    uint32_t stack;
    enum { SNAPSHOT_FREE, SNAPSHOT_ACTIVE, SNAPSHOT_WAITING } state;
} snapshot_block;

/* Who shares free memory: what was asked for on one stream, in one pool. */
typedef struct {
    uint64_t stream; /* as the file has it */
    uint32_t pool;   /* 0: the one that all share; else a private one, as that of a CUDA graph */
} snapshot_lane;

/* A stretch that was named: a step of the optimizer, say. */
typedef struct {
    uint64_t time;
    uint32_t name; /* of texts */
    int32_t device;
    bool ends;
} snapshot_note;

/* The events of one device. */
typedef struct {
    uint32_t list, outer;   /* of the pickle */
    int32_t device;         /* -1: the CPU, or it is not told */
    int32_t type;           /* as c10::DeviceType counts them, from 0; SNAPSHOT_UNTOLD: the file has none */
    bool host;              /* pinned memory of the host */
    bool told;              /* what is reserved is told, without segments */
    array pieces, before;   /* snapshot_piece: in the order of their births; those of before the recording */
    array turns;            /* snapshot_turn */
    array ticks;            /* from event to event, in bytes: see times.h */
    address_table live;     /* of pieces, while it is read */
    uint32_t events;        /* how many */
    uint32_t allocs, frees; /* of them */
    uint32_t replaced;      /* allocations where something was, whose free is missing */
    uint32_t backwards;     /* times that were before the one before */
    uint64_t first, last;   /* times in microseconds; 0: there are none */
    int64_t net, top;       /* bytes alive more than before the recording: now, and at most */
    uint32_t top_at;        /* the instant of that */
    uint64_t base;          /* bytes alive before the recording */
    uint64_t turned;        /* of all turns, each counted */
    uint64_t reserved;      /* of the device's segments, at the end */
    uint32_t unlike;        /* blocks at the end that events do not tell of, or the other way round */
} snapshot_trace;

typedef enum {
    SNAPSHOT_PICKLE,
    SNAPSHOT_TRACE,   /* of the profiler, by Kineto */
    SNAPSHOT_TIMELINE /* of the profiler: categories are told, addresses and frames are not */
} snapshot_form;

typedef struct {
    snapshot_form form;
    uint64_t bytes; /* of the file, unpacked */
    pickle_texts texts;
    stacks stacks;
    array lanes;    /* snapshot_lane */
    array segments; /* snapshot_segment */
    array blocks;   /* snapshot_block */
    array notes;    /* snapshot_note, in the order of the file */
    snapshot_trace *traces;
    uint32_t trace_count, trace_room;
    bool expandable;     /* a setting of the allocator */
    uint64_t most_split; /* max_split_size_mb, in bytes; 0: it was not set */
    bool tells_pools;    /* events tell of their pools */
} snapshot;

/* Reads a file, packed by gzip or not. STATUS_INVALID with a sentence where it is no snapshot. With STATUS_OK
 * end with snapshot_close. */
status snapshot_open(const char *path, snapshot *s);
void snapshot_close(snapshot *s); /* fine on a zeroed one */

/* For readers: one more device, which snapshot_close closes; at most 256. */
status snapshot_add_trace(snapshot *s, snapshot_trace **out);
/* Bytes of all that is held but texts, and whether that is too much of what was read: STATUS_INVALID. */
uint64_t snapshot_held(const snapshot *s);
status snapshot_check_room(uint64_t held, uint64_t read);

/* Arrays of the room: from 0, with the sentence that snapshots want. */
status snapshot_add(array *a, uint32_t *index);
static inline uint32_t snapshot_count(const array *a) { return a->count ? a->count - 1 : 0; }
static inline snapshot_piece *snapshot_piece_at(const array *a, uint32_t i) {
    return (snapshot_piece *)a->data + 1 + i;
}
static inline snapshot_turn *snapshot_turn_at(const snapshot_trace *t, uint32_t i) {
    return (snapshot_turn *)t->turns.data + 1 + i;
}
static inline snapshot_segment *snapshot_segment_at(const snapshot *s, uint32_t i) {
    return (snapshot_segment *)s->segments.data + 1 + i;
}
static inline snapshot_block *snapshot_block_at(const snapshot *s, uint32_t i) {
    return (snapshot_block *)s->blocks.data + 1 + i;
}
static inline const snapshot_lane *snapshot_lane_at(const snapshot *s, uint32_t lane) {
    return (const snapshot_lane *)s->lanes.data + 1 + lane;
}
static inline snapshot_note *snapshot_note_at(const snapshot *s, uint32_t i) {
    return (snapshot_note *)s->notes.data + 1 + i;
}
