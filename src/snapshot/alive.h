/* Who is alive at an instant. */
#pragma once

#include "snapshot/snapshot.h"

typedef struct {
    const snapshot_piece **pieces; /* in the order of their births, those of before the recording first */
    uint32_t count, room;
    uint64_t bytes;
} alive;

/* After the event of that number; close it with alive_close. */
status alive_at(const snapshot_trace *t, uint32_t instant, alive *a);
void alive_close(alive *a);

/* Bytes at the peak, and at the end. */
static inline uint64_t alive_peak(const snapshot_trace *t) { return (uint64_t)((int64_t)t->base + t->top); }
static inline uint64_t alive_end(const snapshot_trace *t) { return (uint64_t)((int64_t)t->base + t->net); }

/* Those of one stack, largest first. */
typedef struct {
    uint32_t stack, count;
    uint64_t bytes;
} alive_group;

status alive_by_stack(const alive *a, alive_group **groups, uint32_t *count); /* memory_free the groups */
