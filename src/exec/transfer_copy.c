/* Pieces in the host's memory, copied by the device. Nothing waits here: the device's lanes wait for each
 * other's events. */
#include "base/memory.h"
#include "exec/transfer_mover.h"

struct transfer_copy {
    const device *device;
    char *host;                        /* POOL_HOST */
    uint64_t given;                    /* pieces whose reading was ordered since opening */
    uint64_t read_event[PIECES_SLOTS]; /* of the last ones: no more than there are slots are awaited */
};

status transfer_copy_open(const plan *p, char *host, transfer_copy **out) {
    transfer_copy *c = *out = memory_new(1, sizeof *c);
    if (!c) return status_set(STATUS_FAILED, "no memory to move state");
    c->device = p->device, c->host = host;
    return STATUS_OK;
}

/* A slot is read into after its last piece was written back, on the same lane, and that after it was computed
 * on. */
static void give(void *mover, const transfer_order *o) {
    transfer_copy *c = mover;
    const device *d = c->device;
    piece_part parts[PIECES_PARTS];
    uint32_t count = pieces_parts(&o->plan->program, &o->piece, parts);
    if (o->writing) d->after(d, LANE_COPY, LANE_COMPUTE, d->mark(d, LANE_COMPUTE));
    for (uint32_t i = 0; i < count; i++) {
        char *there = c->host + o->plan->offset[parts[i].owner] + parts[i].from,
             *here = o->slot + parts[i].at;
        if (o->writing && parts[i].written) d->copy(d, there, here, parts[i].bytes);
        if (!o->writing && parts[i].read) d->copy(d, here, there, parts[i].bytes);
    }
    if (!o->writing) c->read_event[c->given++ % PIECES_SLOTS] = d->mark(d, LANE_COPY);
}

static void await_read(void *mover, uint64_t read) {
    const transfer_copy *c = mover;
    c->device->after(c->device, LANE_COMPUTE, LANE_COPY, c->read_event[(read - 1) % PIECES_SLOTS]);
}

static void settle(void *mover) { (void)mover; } /* the device has, at the end of each run */

static void close_mover(void *mover) { memory_free(mover); }

const transfer_mover transfer_by_copy = { give, await_read, settle, close_mover };
