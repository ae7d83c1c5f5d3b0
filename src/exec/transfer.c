#include "exec/transfer.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/counter.h"
#include "base/mailbox.h"
#include "base/memory.h"
#include "base/units.h"
#include "device/device_file.h"

_Static_assert(PIECES_PAGE % DEVICE_FILE_PAGE == 0, "files take what pieces are cut to");

/* One piece into a slot or out of it. */
typedef struct {
    piece piece;
    uint32_t slot;
    bool writing;
} order;

struct transfer {
    const plan_program *plan; /* of the step */
    device_file file;
    char *slots;
    uint64_t slot_bytes;
    uint32_t slot_count;
    mailbox *orders;
    counter *read;      /* pieces since opening */
    uint64_t used;      /* the same, of the computing thread */
    piece ahead;        /* the last that reading was ordered of; begins as {0} with each run */
    bool more;          /* there are others after it */
    op_arg *args;       /* of one call */
    atomic_bool failed; /* then `sentence` says why, and nothing is moved any more */
    char sentence[512];
};

/* ---- on the transfer's thread ---- */

static status move(transfer *t, const order *o) {
    piece_part parts[PIECES_STATES];
    uint32_t count = pieces_parts(&t->plan->program, &o->piece, parts);
    char *slot = t->slots + o->slot * t->slot_bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = t->plan->offset[parts[i].state] + parts[i].from;
        if (o->writing)
            TRY(device_file_write(&t->file, at, slot + parts[i].at, parts[i].bytes));
        else
            TRY(device_file_read(&t->file, at, slot + parts[i].at, parts[i].bytes));
    }
    return STATUS_OK;
}

static void handle(void *context, const void *item, bool more) {
    (void)more;
    transfer *t = context;
    const order *o = item;
    if (!atomic_load(&t->failed) && move(t, o) != STATUS_OK) {
        snprintf(t->sentence, sizeof t->sentence, "%s", status_message());
        atomic_store(&t->failed, true);
    }
    if (!o->writing) counter_add(t->read);
}

/* ---- opening ---- */

static uint32_t most_sides(const program *p) {
    uint32_t most = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(&p->graph, p->steps[s].node);
        uint32_t sides = (uint32_t)n->in_count + n->out_count;
        if (pieces_step(p, s) && sides > most) most = sides;
    }
    return most;
}

status transfer_open(const plan *p, char *slots, transfer **out) {
    transfer *t = *out = memory_new(1, sizeof *t);
    if (!t) return status_set(STATUS_FAILED, "no memory to move state");
    t->plan = p->programs[PROGRAM_STEP];
    t->slots = slots + (PIECES_PAGE - (uintptr_t)slots % PIECES_PAGE) % PIECES_PAGE;
    t->slot_bytes = p->slot_bytes, t->slot_count = p->slots;
    t->file.handle = -1;
    t->args = memory_new(most_sides(&t->plan->program), sizeof *t->args);
    t->read = counter_new();
    status result = t->args && t->read ? STATUS_OK : status_set(STATUS_FAILED, "no memory to move state");
    mailbox_options o = {
        .item_bytes = sizeof(order), .room = 2 * PIECES_SLOTS + 2, .handle = handle, .context = t
    };
    if (result == STATUS_OK) result = device_file_open(&t->file, p->folder, p->file_bytes);
    if (result == STATUS_OK) result = mailbox_open(&o, &t->orders);
    if (result == STATUS_OK) return STATUS_OK;
    transfer_close(t);
    *out = NULL;
    return result;
}

void transfer_close(transfer *t) {
    if (!t) return;
    mailbox_close(t->orders);
    device_file_close(&t->file);
    counter_free(t->read);
    memory_free(t->args);
    memory_free(t);
}

/* ---- running ---- */

static void read_next(transfer *t, uint32_t slot) {
    t->more = t->more && pieces_next(&t->plan->program, &t->ahead);
    if (t->more) mailbox_put(t->orders, &(order){ .piece = t->ahead, .slot = slot }, true);
}

static uint32_t slot_of(const transfer *t, uint64_t number) { return (uint32_t)(number % t->slot_count); }

void transfer_begin(transfer *t) {
    t->ahead = (piece){ 0 };
    t->more = true;
    for (uint32_t i = 0; i < t->slot_count; i++) read_next(t, slot_of(t, t->used + i));
}

void transfer_run(transfer *t, uint32_t step, const op_call *call) {
    const program *p = &t->plan->program;
    for (piece x = { .step = step }; pieces_next(p, &x) && x.step == step;) {
        uint32_t slot = slot_of(t, t->used);
        op_call part;
        counter_wait(t->read, t->used + 1);
        pieces_call(p, &x, call, t->slots + slot * t->slot_bytes, t->args, &part);
        p->steps[step].kernel->run(&part);
        t->used++;
        mailbox_put(t->orders, &(order){ .piece = x, .slot = slot, .writing = true }, true);
        read_next(t, slot);
    }
}

/* ---- between runs ---- */

status transfer_failed(const transfer *t) {
    if (!atomic_load(&t->failed)) return STATUS_OK;
    return status_set(STATUS_FAILED, "%s", t->sentence);
}

status transfer_settle(transfer *t) {
    mailbox_drain(t->orders);
    return transfer_failed(t);
}

void *transfer_room(const transfer *t) { return t->slots; }

status transfer_read(transfer *t, uint64_t at, uint64_t bytes) {
    return device_file_read(&t->file, at, t->slots, units_align(bytes, PIECES_PAGE));
}

status transfer_write(transfer *t, uint64_t at, uint64_t bytes) {
    return device_file_write(&t->file, at, t->slots, units_align(bytes, PIECES_PAGE));
}
