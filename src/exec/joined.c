#include "exec/joined.h"

#include <stddef.h>

static struct {
    const device *device;
    device_pool words;
} joined;

/* ---- a device's lanes, as comm asks them ---- */

static void begin(const void *device_of) {
    const device *d = device_of;
    d->after(d, LANE_RANKS, LANE_COMPUTE, d->mark(d, LANE_COMPUTE));
}

static uint64_t mark(const void *device_of) {
    const device *d = device_of;
    return d->mark(d, LANE_RANKS);
}

static void after(const void *device_of, uint64_t event) {
    const device *d = device_of;
    d->after(d, LANE_COMPUTE, LANE_RANKS, event);
}

static bool happened(const void *device_of, uint64_t event) {
    const device *d = device_of;
    return d->happened(d, event);
}

static void open_lanes(const void *device_of) {
    const device *d = device_of;
    d->begin(d);
}

static void shut_lanes(const void *device_of) {
    const device *d = device_of;
    d->end(d);
}

static void put(const void *device_of, void *to, const void *from, uint64_t bytes) {
    const device *d = device_of;
    d->put(d, to, from, bytes);
}

static void get(const void *device_of, void *to, const void *from, uint64_t bytes) {
    const device *d = device_of;
    d->get(d, to, from, bytes);
}

/* ---- joining ---- */

/* Where MPI speaks for hosts, no memory of the device is taken for that. */
status joined_open(const device *d, const launch *l) {
    joined.device = d;
    if (!l->by_mpi) TRY(d->open(d, &joined.words, comm_words_bytes(l->world)));
    return comm_join(l, &(comm_lane){ .device = d,
                                      .stream = d->stream(d),
                                      .begin = begin,
                                      .mark = mark,
                                      .after = after,
                                      .happened = happened,
                                      .words = joined.words.data,
                                      .open = open_lanes,
                                      .shut = shut_lanes,
                                      .put = put,
                                      .get = get });
}

void joined_close(void) {
    if (joined.device) joined.device->close(joined.device, &joined.words);
    joined.device = NULL;
}

void joined_end(const device *d) {
    if (d == joined.device) comm_settle();
    d->end(d);
}

status joined_failed(const device *d) {
    status result = d->failed ? d->failed(d) : STATUS_OK;
    if (result != STATUS_OK && d == joined.device) comm_break(status_message());
    return result;
}

device_parts joined_beside(const device *d) {
    device_parts p = d->beside(d);
    if (d == joined.device) p.ranks += joined.words.bytes;
    return p;
}
