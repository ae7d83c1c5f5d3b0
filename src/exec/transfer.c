#include "exec/transfer.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/counter.h"
#include "base/mailbox.h"
#include "base/memory.h"
#include "base/units.h"
#include "device/device_file.h"

_Static_assert(PIECES_PAGE % DEVICE_FILE_PAGE == 0, "files take what pieces are cut to");

/* Read one piece into a slot, or write it back. A piece that is only written is "read" too: nothing is moved
 * then, but its turn says that the slot is free. */
typedef struct {
    const plan_program *plan;
    piece piece;
    uint32_t slot;
    bool writing;
} order;

struct transfer {
    const plan_program *plan; /* the program that runs, or ran last */
    device_file file;
    char *slots;
    uint64_t slot_bytes;
    uint32_t slot_count;
    mailbox *orders;
    counter *read;      /* how many pieces have been read since opening, */
    uint64_t used;      /* how many have been computed on, */
    uint64_t ordered;   /* and how many have been ordered to be read */
    piece ahead;        /* the next piece to order, */
    bool more;          /* if there is one, */
    uint32_t readable;  /* which can be read after so many steps of the program */
    uint32_t past;      /* how many steps of it are done */
    op_arg *args;       /* room for the arguments of a call */
    atomic_bool failed; /* nothing is moved any more; `sentence` says why */
    char sentence[512];
};

/* ---- on the transfer's thread ---- */

static status move(transfer *t, const order *o) {
    piece_part parts[PIECES_PARTS];
    uint32_t count = pieces_parts(&o->plan->program, &o->piece, parts);
    char *slot = t->slots + o->slot * t->slot_bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = o->plan->offset[parts[i].owner] + parts[i].from;
        if (o->writing ? !parts[i].written : !parts[i].read) continue;
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

static uint32_t most_sides(const program *p, uint32_t most) {
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
    t->slots = slots + (PIECES_PAGE - (uintptr_t)slots % PIECES_PAGE) % PIECES_PAGE;
    t->slot_bytes = p->slot_bytes, t->slot_count = p->slots;
    t->file.handle = -1;
    uint32_t sides = 0;
    for (uint32_t k = 0; k < p->program_count; k++) sides = most_sides(&p->programs[k].program, sides);
    t->args = memory_new(sides, sizeof *t->args);
    t->read = counter_new();
    status result = t->args && t->read ? STATUS_OK : status_set(STATUS_FAILED, "no memory to move state");
    mailbox_options o = {
        .item_bytes = sizeof(order), .room = 2 * PIECES_SLOTS + 2, .handle = handle, .context = t
    };
    if (result == STATUS_OK) result = device_file_open(&t->file, p->folder, plan_file_bytes(p));
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

static uint32_t slot_of(const transfer *t, uint64_t number) { return (uint32_t)(number % t->slot_count); }

static void look_ahead(transfer *t) {
    uint32_t before = t->ahead.step;
    t->more = pieces_next(&t->plan->program, &t->ahead);
    if (t->more && (t->ahead.step != before || t->ahead.first == 0))
        t->readable = pieces_readable(&t->plan->program, t->ahead.step);
}

/* Orders the next pieces to be read: as many as there are free slots, and only what the file holds already.
 */
static void read_ahead(transfer *t) {
    while (t->more && t->ordered < t->used + t->slot_count && t->readable <= t->past) {
        mailbox_put(t->orders, &(order){ .plan = t->plan, .piece = t->ahead, .slot = slot_of(t, t->ordered) },
                    true);
        t->ordered++;
        look_ahead(t);
    }
}

void transfer_begin(transfer *t, const plan_program *next) {
    t->plan = next;
    t->ahead = (piece){ 0 };
    t->past = 0;
    look_ahead(t);
    read_ahead(t);
}

void transfer_run(transfer *t, uint32_t step, const op_call *call) {
    const program *p = &t->plan->program;
    t->past = step;
    for (piece x = { .step = step }; pieces_next(p, &x) && x.step == step;) {
        uint32_t slot = slot_of(t, t->used);
        op_call part;
        read_ahead(t);
        counter_wait(t->read, t->used + 1);
        pieces_call(p, &x, call, t->slots + slot * t->slot_bytes, t->args, &part);
        p->steps[step].kernel->run(&part);
        t->used++;
        mailbox_put(t->orders, &(order){ .plan = t->plan, .piece = x, .slot = slot, .writing = true }, true);
    }
    t->past = step + 1;
    read_ahead(t);
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
