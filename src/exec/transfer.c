#include "exec/transfer.h"

#include "base/memory.h"
#include "base/units.h"
#include "exec/exec_internal.h"
#include "exec/transfer_mover.h"

struct transfer {
    const device *device;
    const plan_program *plan;        /* the program that runs, or ran last */
    const transfer_mover *functions; /* of the mover */
    void *mover;
    transfer_file *file; /* the mover, where it moves to a file; else NULL */
    char *slots;
    uint64_t slot_bytes;
    uint32_t slot_count;
    uint64_t used;           /* how many pieces have been computed on since opening, */
    uint64_t ordered;        /* and of how many reading was ordered */
    piece ahead;             /* the next piece to order, */
    bool more;               /* if there is one, */
    uint32_t readable_after; /* which can be read after so many steps of the program */
    uint32_t done;           /* how many steps of it are done */
    op_arg *args;            /* room for the arguments of a call */
};

/* ---- opening ---- */

static uint32_t most_sides(const program *p, uint32_t most) {
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(&p->graph, p->steps[s].node);
        uint32_t sides = (uint32_t)n->in_count + n->out_count;
        if (pieces_step(p, s) && sides > most) most = sides;
    }
    return most;
}

static status open_mover(transfer *t, const plan *p, char *host) {
    status result;
    if (p->device->apart) {
        transfer_copy *copy;
        result = transfer_copy_open(p, host, &copy);
        t->functions = &transfer_by_copy, t->mover = copy;
    } else {
        result = transfer_file_open(p, &t->file);
        t->functions = &transfer_by_file, t->mover = t->file;
    }
    return result;
}

status transfer_open(const plan *p, char *slots, char *host, transfer **out) {
    transfer *t = *out = memory_new(1, sizeof *t);
    if (!t) return status_set(STATUS_FAILED, "no memory to move state");
    t->slots = slots + (PIECES_PAGE - (uintptr_t)slots % PIECES_PAGE) % PIECES_PAGE;
    t->device = p->device, t->slot_bytes = p->slot_bytes, t->slot_count = p->slots;
    uint32_t sides = 0;
    for (uint32_t k = 0; k < p->program_count; k++) sides = most_sides(&p->programs[k].program, sides);
    t->args = memory_new(sides, sizeof *t->args);
    status result = t->args ? open_mover(t, p, host) : status_set(STATUS_FAILED, "no memory to move state");
    if (result == STATUS_OK) return STATUS_OK;
    transfer_close(t);
    *out = NULL;
    return result;
}

void transfer_close(transfer *t) {
    if (!t) return;
    if (t->mover) t->functions->close(t->mover);
    memory_free(t->args);
    memory_free(t);
}

/* ---- running ---- */

static char *slot_of(const transfer *t, uint64_t number) {
    return t->slots + number % t->slot_count * t->slot_bytes;
}

static void give(transfer *t, const piece *x, uint64_t number, bool writing) {
    t->functions->give(t->mover, &(transfer_order){ t->plan, *x, slot_of(t, number), writing });
}

static void look_ahead(transfer *t) {
    uint32_t before = t->ahead.step;
    t->more = pieces_next(&t->plan->program, &t->ahead);
    if (t->more && (t->ahead.step != before || t->ahead.first == 0))
        t->readable_after = pieces_readable(&t->plan->program, t->ahead.step);
}

/* Orders the next pieces to be read: as many as there are free slots, and only what is there already. */
static void read_ahead(transfer *t) {
    while (t->more && t->ordered < t->used + t->slot_count && t->readable_after <= t->done) {
        give(t, &t->ahead, t->ordered++, false);
        look_ahead(t);
    }
}

void transfer_begin(transfer *t, const plan_program *next) {
    t->plan = next;
    t->ahead = (piece){ 0 };
    t->done = 0;
    look_ahead(t);
    read_ahead(t);
}

void transfer_run(transfer *t, uint32_t step, const op_call *call) {
    const program *p = &t->plan->program;
    t->done = step;
    for (piece x = { .step = step }; pieces_next(p, &x) && x.step == step;) {
        op_call part;
        read_ahead(t);
        t->functions->compute_after(t->mover, t->used + 1);
        pieces_call(p, &x, call, slot_of(t, t->used), t->args, &part);
        exec_call(t->device, &p->steps[step], &part);
        give(t, &x, t->used++, true);
    }
    t->done = step + 1;
    read_ahead(t);
}

/* ---- between runs ---- */

status transfer_failed(const transfer *t) { return t->file ? transfer_file_failed(t->file) : STATUS_OK; }

status transfer_settle(transfer *t) {
    t->functions->settle(t->mover);
    return transfer_failed(t);
}

void *transfer_buffer(const transfer *t) { return t->slots; }

status transfer_read(transfer *t, uint64_t at, uint64_t bytes) {
    return transfer_file_read(t->file, at, t->slots, units_align(bytes, PIECES_PAGE));
}

status transfer_write(transfer *t, uint64_t at, uint64_t bytes) {
    return transfer_file_write(t->file, at, t->slots, units_align(bytes, PIECES_PAGE));
}

uint64_t transfer_file_bytes(const transfer *t) { return t && t->file ? transfer_file_size(t->file) : 0; }
