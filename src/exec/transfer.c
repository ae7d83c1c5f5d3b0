#include "exec/transfer.h"

#include "base/memory.h"
#include "base/units.h"
#include "exec/exec_internal.h"
#include "exec/transfer_mover.h"

/* What is ordered ahead of computing. */
typedef struct {
    uint64_t ordered;        /* pieces since opening */
    piece next;              /* the next one, */
    bool more;               /* if there is one, */
    uint32_t readable_after; /* which can be read after so many steps of the program */
} looking;

struct transfer {
    const device *device;
    const plan_program *plan;        /* the program that runs, or ran last */
    const transfer_mover *functions; /* of the mover */
    void *mover;
    transfer_file *file; /* who moves to a file: the mover, or behind it; NULL: there is no file */
    char *slots;
    char *first; /* slot of the host's: of the ring where there is one */
    uint64_t slot_bytes;
    uint32_t slot_count;
    uint32_t ring;     /* slots of the host's */
    uint64_t used;     /* how many pieces have been computed on since opening */
    looking near, far; /* of reading; of fetching, where the mover does that */
    uint32_t done;     /* how many steps of the program are done */
    op_arg *args;      /* room for the arguments of a call */
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

static char *aligned(char *at) { return at + (PIECES_PAGE - (uintptr_t)at % PIECES_PAGE) % PIECES_PAGE; }

static status open_mover(transfer *t, const plan *p, char *host) {
    status result = STATUS_OK;
    if (plan_file_bytes(p)) result = transfer_file_open(p, &t->file);
    t->functions = &transfer_by_file, t->mover = t->file;
    if (result != STATUS_OK || !p->device->apart) return result;
    transfer_copy *copy;
    result = transfer_copy_open(p, host, t->first, t->file, &copy);
    t->functions = &transfer_by_copy, t->mover = copy;
    return result;
}

status transfer_open(const plan *p, char *slots, char *host, char *ring, transfer **out) {
    transfer *t = *out = memory_new(1, sizeof *t);
    if (!t) return status_set(STATUS_FAILED, "no memory to move state");
    t->slots = aligned(slots);
    t->first = ring ? aligned(ring) : t->slots;
    t->device = p->device, t->slot_bytes = p->slot_bytes, t->slot_count = p->slots, t->ring = p->ring;
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
    if (t->file != t->mover) transfer_file_close(t->file);
    memory_free(t->args);
    memory_free(t);
}

/* ---- running ---- */

static char *slot_of(const transfer *t, uint64_t number) {
    return t->slots + number % t->slot_count * t->slot_bytes;
}

static transfer_order order(const transfer *t, const piece *x, uint64_t number, bool writing) {
    return (transfer_order){ t->plan, *x, slot_of(t, number), number, writing };
}

static void give(transfer *t, const piece *x, uint64_t number, bool writing) {
    transfer_order o = order(t, x, number, writing);
    t->functions->give(t->mover, &o);
}

static void look_ahead(const transfer *t, looking *l) {
    uint32_t before = l->next.step;
    l->more = pieces_next(&t->plan->program, &l->next);
    if (l->more && (l->next.step != before || l->next.first == 0))
        l->readable_after = pieces_readable(&t->plan->program, l->next.step);
}

/* Only what is there already can be ordered, and as much as there are free slots. */
static bool may_order(const transfer *t, const looking *l, uint32_t slots) {
    return l->more && l->ordered < t->used + slots && l->readable_after <= t->done;
}

/* Orders the next pieces to be read, after they were fetched. */
static void read_ahead(transfer *t) {
    for (; t->ring && may_order(t, &t->far, t->ring); look_ahead(t, &t->far)) {
        transfer_order o = order(t, &t->far.next, t->far.ordered++, false);
        t->functions->fetch(t->mover, &o);
    }
    for (; may_order(t, &t->near, t->slot_count) && (!t->ring || t->near.ordered < t->far.ordered);
         look_ahead(t, &t->near))
        give(t, &t->near.next, t->near.ordered++, false);
}

static void look_first(const transfer *t, looking *l) {
    l->next = (piece){ 0 };
    look_ahead(t, l);
}

void transfer_begin(transfer *t, const plan_program *next) {
    t->plan = next;
    t->done = 0;
    look_first(t, &t->near);
    look_first(t, &t->far);
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

void *transfer_buffer(const transfer *t) { return t->first; }

status transfer_read(transfer *t, uint64_t at, uint64_t bytes) {
    return transfer_file_read(t->file, at, t->first, units_align(bytes, PIECES_PAGE));
}

status transfer_write(transfer *t, uint64_t at, uint64_t bytes) {
    return transfer_file_write(t->file, at, t->first, units_align(bytes, PIECES_PAGE));
}

uint64_t transfer_file_bytes(const transfer *t) { return t && t->file ? transfer_file_size(t->file) : 0; }
