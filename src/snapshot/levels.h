/* Bytes in use over the recording, with each allocation counted as whoever asks wants it: as it was, or as it
 * would be with a remedy. */
#pragma once

#include "snapshot/course.h"

/* Pieces in the order of their deaths: of the trace's, and of those of before the recording. */
typedef struct {
    const snapshot_trace *trace;
    uint64_t *deaths; /* instant, and the piece's number with LEVELS_BEFORE for one of before */
    uint32_t count;
} levels;

#define LEVELS_BEFORE UINT32_C(0x80000000)

status levels_open(const snapshot_trace *t, levels *l);
void levels_close(levels *l); /* fine on a zeroed one */

/* How many bytes a piece counts as. `index` as in deaths. */
typedef uint64_t levels_weight(const void *context, uint32_t index);
/* Called after each instant at which something changed, in their order, and for 0. */
typedef void levels_each(void *context, uint32_t instant, uint64_t level);

typedef struct {
    levels_weight *weight; /* NULL: its own bytes */
    const void *of;
    levels_each *each; /* NULL: nobody */
    void *context;
} levels_play;

typedef struct {
    uint64_t bytes;
    uint32_t at;
} levels_peak;
levels_peak levels_run(const levels *l, const levels_play *p);

static inline const snapshot_piece *levels_piece(const levels *l, uint32_t index) {
    return index & LEVELS_BEFORE ? snapshot_piece_at(&l->trace->before, index & ~LEVELS_BEFORE)
                                 : snapshot_piece_at(&l->trace->pieces, index);
}
