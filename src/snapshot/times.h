/* Times of events: each is told by how much it is after the one before, in one byte where that is less than
 * TIMES_LONG microseconds, else in nine. */
#pragma once

#include "snapshot/snapshot.h"

enum { TIMES_LONG = 255 };

/* Of the event that comes next. Times that go backwards stand still. */
status times_add(snapshot_trace *t, uint64_t time);

/* Reads them one after the other. */
typedef struct {
    const snapshot_trace *trace;
    uint32_t at, byte; /* the instant, and where the next one's begins */
    uint64_t time;
} times_reader;

times_reader times_begin(const snapshot_trace *t);
bool times_next(times_reader *r); /* false: there is no further one */

/* Of an instant; 0: there are no times. */
uint64_t times_of(const snapshot_trace *t, uint32_t instant);
