#include "snapshot/times.h"

#include <string.h>

status times_add(snapshot_trace *t, uint64_t time) {
    if (!t->first) t->first = t->last = time;
    if (time < t->last) t->backwards++, time = t->last;
    uint64_t after = time - t->last;
    uint32_t index, bytes = after < TIMES_LONG ? 1 : 9;
    if (array_add(&t->ticks, bytes, &index) != STATUS_OK)
        return status_set(STATUS_INVALID, "the snapshot has more events than are held");
    unsigned char *to = (unsigned char *)t->ticks.data + index;
    *to = (unsigned char)(bytes == 1 ? after : TIMES_LONG);
    if (bytes > 1) memcpy(to + 1, &after, sizeof after);
    t->last = time;
    return STATUS_OK;
}

times_reader times_begin(const snapshot_trace *t) {
    return (times_reader){ .trace = t, .byte = 1, .time = t->first };
}

bool times_next(times_reader *r) {
    const unsigned char *bytes = r->trace->ticks.data;
    uint64_t after;
    if (r->at == r->trace->events) return false;
    after = bytes[r->byte++];
    if (after == TIMES_LONG) {
        memcpy(&after, bytes + r->byte, sizeof after);
        r->byte += (uint32_t)sizeof after;
    }
    r->time += after;
    r->at++;
    return true;
}

uint64_t times_of(const snapshot_trace *t, uint32_t instant) {
    times_reader r = times_begin(t);
    while (r.at < instant && times_next(&r)) continue;
    return r.time;
}
