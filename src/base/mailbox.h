/* A bounded queue to a thread of its own, so that who computes never waits for a terminal or a disk. Items
 * are copied in and handled in their order. The thread gathers: after the first item it lingers before it
 * takes what has come, so that a thousand small steps a second cost a few wake-ups.
 *
 * All memory is taken when it opens: the queue, and a small stack. Signals stay with the program's threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mailbox mailbox;

enum { MAILBOX_STACK_BYTES = 64 << 10 };

typedef struct {
    size_t item_bytes;
    uint32_t room;         /* items */
    size_t stack_bytes;    /* 0: MAILBOX_STACK_BYTES */
    double linger_seconds; /* from the first item to handling it, unless half of the room is taken */
    /* On the mailbox's thread. `more`: another item waits already; without it the last of a gathering is
     * here, and what is buffered should go out. */
    void (*handle)(void *context, const void *item, bool more);
    void *context;
} mailbox_options;

status mailbox_open(const mailbox_options *o, mailbox **m);

/* False: the queue is full, and the item is dropped. With `wait` it is put in any case, as soon as there is
 * room. */
bool mailbox_put(mailbox *m, const void *item, bool wait);

/* Returns when all that was put has been handled. */
void mailbox_drain(mailbox *m);

/* Drains, then ends the thread. NULL is fine. */
void mailbox_close(mailbox *m);
