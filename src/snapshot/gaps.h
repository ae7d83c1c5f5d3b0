/* What is reserved of the device at an instant and in no allocation: how much, in which pieces, and why none
 * of them serves a request.
 *
 * Segments are those at the end, with what the allocator did since then taken back. A piece serves a request
 * of its own stream, and of its own kind: requests of at most 1 MiB share segments of 2 MiB, others have
 * theirs. */
#pragma once

#include "snapshot/alive.h"

typedef struct {
    uint64_t address, bytes; /* of a segment, or free in one */
    uint16_t lane;
    bool small;
    uint32_t pool; /* a private one's, as a CUDA graph's; 0: the one that all share */
} gaps_range;

typedef struct {
    gaps_range *segments, *pieces; /* by address; pieces are what is free */
    uint32_t segment_count, piece_count;
    uint64_t reserved, free, largest;
    bool known; /* the file tells of the device's segments at all */
    bool told;  /* of what is reserved it tells, and of segments not */
} gaps;

/* `a` is who is alive at the instant. */
status gaps_at(const snapshot *s, const snapshot_trace *t, uint32_t instant, const alive *a, gaps *g);
void gaps_close(gaps *g); /* fine on a zeroed one */

/* Bytes reserved at the end, and at most, and at which instant that was. */
typedef struct {
    uint64_t most, begin; /* begin: before the first event */
    uint32_t at;
} gaps_course;
gaps_course gaps_course_of(const snapshot_trace *t);
int64_t gaps_change(const snapshot_turn *x); /* of what is reserved */

/* What is reserved after one instant after the other: begins with a trace, what was reserved before the first
 * event (gaps_course's begin), and 0. */
typedef struct {
    const snapshot_trace *trace;
    uint64_t reserved;
    uint32_t turn; /* the first that has not come yet */
} gaps_reader;
uint64_t gaps_reserved_at(gaps_reader *r, uint32_t instant); /* not before the last one */

/* What a request meets: free bytes of its pool and stream, the largest piece of them, and what is free of
 * other streams, of the other pool, and of private pools. */
typedef struct {
    uint64_t asked, rounded, own, largest, other_streams, other_pool, private_pools;
    bool
        is_private; /* it was made in a private pool: private_pools are all others then, and the shared one */
} gaps_request;
gaps_request gaps_meet(const gaps *g, uint64_t bytes, uint16_t lane, uint32_t pool);
