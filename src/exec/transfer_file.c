/* Pieces in a file, moved by a thread. */
#include <stdatomic.h>
#include <stdio.h>

#include "base/counter.h"
#include "base/mailbox.h"
#include "base/memory.h"
#include "device/device_file.h"
#include "exec/transfer_mover.h"

_Static_assert(PIECES_PAGE % DEVICE_FILE_PAGE == 0, "where pieces begin, files can be read");

struct transfer_file {
    device_file file;
    mailbox *orders;
    counter *read;      /* how many pieces have been read since opening */
    bool behind;        /* a device apart: what is not filed is not this file's */
    atomic_bool failed; /* nothing is moved any more; `sentence` says why */
    char sentence[512];
};

/* ---- on the thread ---- */

static status move(transfer_file *f, const transfer_order *o) {
    piece_part parts[PIECES_PARTS];
    uint32_t count = pieces_parts(&o->plan->program, &o->piece, parts);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = o->plan->offset[parts[i].owner] + parts[i].from;
        if (f->behind && !parts[i].filed) continue;
        if (o->writing ? !parts[i].written : !parts[i].read) continue;
        if (o->writing)
            TRY(device_file_write(&f->file, at, o->slot + parts[i].at, parts[i].bytes));
        else
            TRY(device_file_read(&f->file, at, o->slot + parts[i].at, parts[i].bytes));
    }
    return STATUS_OK;
}

static void handle(void *context, const void *item, bool more) {
    (void)more;
    transfer_file *f = context;
    const transfer_order *o = item;
    if (!atomic_load(&f->failed) && move(f, o) != STATUS_OK) {
        snprintf(f->sentence, sizeof f->sentence, "%s", status_message());
        atomic_store(&f->failed, true);
    }
    if (!o->writing) counter_add(f->read);
}

/* ---- opening ---- */

status transfer_file_open(const plan *p, transfer_file **out) {
    transfer_file *f = *out = memory_new(1, sizeof *f);
    if (!f) return status_set(STATUS_FAILED, "no memory to move state");
    f->file.handle = -1;
    f->behind = p->device->apart;
    f->read = counter_new();
    status result = f->read ? STATUS_OK : status_set(STATUS_FAILED, "no memory to move state");
    mailbox_options o = {
        .item_bytes = sizeof(transfer_order), .room = 2 * PIECES_RING + 2, .handle = handle, .context = f
    };
    if (result == STATUS_OK) result = device_file_open(&f->file, p->folder, plan_file_bytes(p));
    if (result == STATUS_OK) result = mailbox_open(&o, &f->orders);
    if (result == STATUS_OK) return STATUS_OK;
    transfer_file_close(f);
    *out = NULL;
    return result;
}

void transfer_file_close(void *mover) {
    transfer_file *f = mover;
    if (!f) return;
    mailbox_close(f->orders);
    device_file_close(&f->file);
    counter_free(f->read);
    memory_free(f);
}

/* ---- orders ---- */

static void give(void *mover, const transfer_order *o) {
    transfer_file *f = mover;
    mailbox_put(f->orders, o, true);
}

static void await_read(void *mover, uint64_t read) {
    transfer_file *f = mover;
    counter_wait(f->read, read);
}

static void settle(void *mover) {
    transfer_file *f = mover;
    mailbox_drain(f->orders);
}

const transfer_mover transfer_by_file = { give, await_read, NULL, settle, transfer_file_close };

/* ---- for the host ---- */

status transfer_file_failed(const transfer_file *f) {
    if (!atomic_load(&f->failed)) return STATUS_OK;
    return status_set(STATUS_FAILED, "%s", f->sentence);
}

status transfer_file_read(transfer_file *f, uint64_t at, void *into, uint64_t bytes) {
    return device_file_read(&f->file, at, into, bytes);
}

status transfer_file_write(transfer_file *f, uint64_t at, const void *from, uint64_t bytes) {
    return device_file_write(&f->file, at, from, bytes);
}

uint64_t transfer_file_size(const transfer_file *f) { return device_file_size(&f->file); }
