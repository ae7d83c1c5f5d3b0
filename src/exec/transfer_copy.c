/* Pieces in the host's memory, copied by the device, and in a file behind it. Nothing waits here: the
 * device's lanes wait for each other's events, and the lane of copies calls who moves a file, and waits for
 * that.
 *
 * What is filed of a piece passes through a slot of the ring. In the order of the lane: the file is asked to
 * read it there, as far ahead as the ring has slots; before it is copied from there the lane waits for the
 * file; when it was computed on it is copied back there, and the file is asked to write it. The file does
 * what it is asked in that order, so a slot of the ring has been written when the file reads into it anew,
 * and a value when it is read again. */
#include "base/memory.h"
#include "exec/transfer_mover.h"

/* What the lane calls. */
typedef struct {
    transfer_file *file;
    transfer_order order; /* its slot is one of the ring */
    uint64_t turn;        /* of reading: how many pieces have been read by then */
} lane_call;

_Static_assert(sizeof(lane_call) <= PLAN_CALL_BYTES, "the plan has room for so much");

struct transfer_copy {
    const device *device;
    char *host;                        /* POOL_HOST */
    uint64_t given;                    /* pieces whose reading was ordered since opening */
    uint64_t read_event[PIECES_SLOTS]; /* of the last ones: no more than there are slots are awaited */
    transfer_file *file;
    char *ring;
    uint64_t slot_bytes;
    uint32_t slots;   /* of the ring */
    lane_call *calls; /* as many as there may be until the host waits, used in turn */
    uint64_t call_room, call_count;
    uint64_t fetched, arrived; /* pieces that the file was asked for, and that were waited for */
};

status transfer_copy_open(const plan *p, char *host, char *ring, transfer_file *file, transfer_copy **out) {
    transfer_copy *c = *out = memory_new(1, sizeof *c);
    if (!c) return status_set(STATUS_FAILED, "no memory to move state");
    *c = (transfer_copy){ .device = p->device,
                          .host = host,
                          .file = file,
                          .ring = ring,
                          .slot_bytes = p->slot_bytes,
                          .slots = p->ring,
                          .call_room = p->ring_calls };
    if (!file) return STATUS_OK;
    c->calls = memory_new(c->call_room, sizeof *c->calls);
    return c->calls ? STATUS_OK : status_set(STATUS_FAILED, "no memory to move state");
}

/* ---- a file behind ---- */

static void move(void *context) {
    lane_call *x = context;
    transfer_by_file.give(x->file, &x->order);
}

static void await_file(void *context) {
    lane_call *x = context;
    transfer_by_file.compute_after(x->file, x->turn);
}

static char *ring_slot(const transfer_copy *c, uint64_t number) {
    return c->ring + number % c->slots * c->slot_bytes;
}

static void call(transfer_copy *c, void (*function)(void *), const transfer_order *o, uint64_t turn) {
    lane_call *x = &c->calls[c->call_count++ % c->call_room];
    *x = (lane_call){ c->file, *o, turn };
    x->order.slot = ring_slot(c, o->number);
    c->device->call(c->device, function, x);
}

static bool is_filed(const transfer_copy *c, const transfer_order *o) {
    return c->file && pieces_filed(&o->plan->program, o->piece.step);
}

static void fetch(void *mover, const transfer_order *o) {
    transfer_copy *c = mover;
    if (!is_filed(c, o)) return;
    c->fetched++;
    call(c, move, o, 0);
}

/* ---- copies ---- */

/* A slot is read into after its last piece was written back, on the same lane, and that after it was computed
 * on. */
static void give(void *mover, const transfer_order *o) {
    transfer_copy *c = mover;
    const device *d = c->device;
    piece_part parts[PIECES_PARTS];
    uint32_t count = pieces_parts(&o->plan->program, &o->piece, parts);
    bool filed = is_filed(c, o);
    if (o->writing) d->after(d, LANE_COPY, LANE_COMPUTE, d->mark(d, LANE_COMPUTE));
    if (filed && !o->writing) call(c, await_file, o, ++c->arrived);
    for (uint32_t i = 0; i < count; i++) {
        char *waits = c->host + o->plan->offset[parts[i].owner] + parts[i].from,
             *there = parts[i].filed ? ring_slot(c, o->number) + parts[i].at : waits,
             *here = o->slot + parts[i].at;
        if (o->writing && parts[i].written) d->copy(d, there, here, parts[i].bytes);
        if (!o->writing && parts[i].read) d->copy(d, here, there, parts[i].bytes);
    }
    if (filed && o->writing) call(c, move, o, 0);
    if (!o->writing) c->read_event[c->given++ % PIECES_SLOTS] = d->mark(d, LANE_COPY);
}

static void await_read(void *mover, uint64_t read) {
    const transfer_copy *c = mover;
    c->device->after(c->device, LANE_COMPUTE, LANE_COPY, c->read_event[(read - 1) % PIECES_SLOTS]);
}

/* The device has, at the end of each run. */
static void settle(void *mover) {
    transfer_copy *c = mover;
    if (c->file) transfer_by_file.settle(c->file);
}

static void close_mover(void *mover) {
    transfer_copy *c = mover;
    memory_free(c->calls);
    memory_free(c);
}

const transfer_mover transfer_by_copy = { give, await_read, fetch, settle, close_mover };
