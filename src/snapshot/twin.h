/* The allocator's twin: what was asked for and freed, played through our model of PyTorch's caching allocator
 * (estimate/torch), beside the segments that were recorded. */
#pragma once

#include "snapshot/snapshot.h"

typedef struct {
    const char *why; /* it was not played; NULL: it was */
    uint32_t turns;  /* recorded: segments taken and given back */
    uint32_t equal;  /* of them, from the first on, that the twin made too: at the same place, to the byte */
    uint32_t differs_at;     /* the instant of the first that is otherwise; 0: none is */
    uint64_t recorded, made; /* bytes of that one; 0: there is none */
    uint64_t taken_peak;     /* bytes of blocks, with rounding and what was not split off */
    uint64_t taken;          /* at the instant that is looked at */
    uint64_t reserved;       /* by the twin then */
} twin;

status twin_play(const snapshot *s, const snapshot_trace *t, uint32_t instant, twin *w);
