#include "train/together.h"

#include <stdio.h>

#include "base/memory.h"
#include "comm/comm.h"

typedef struct {
    together_note note;
    bool failed;
} message;

status together_agree(status so_far, together_note *note) {
    int world = comm_world().world;
    if (world < 2) return so_far;
    message mine = { *note, so_far != STATUS_OK }, *all = memory_new((size_t)world, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    char sentence[STATUS_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", so_far == STATUS_OK ? "" : status_message());
    status result = comm_share(&mine, all, sizeof mine);
    bool failed = false;
    *note = (together_note){ 0 };
    for (int r = 0; r < world && result == STATUS_OK; r++) {
        note->labels += all[r].note.labels, note->stops |= all[r].note.stops;
        failed |= all[r].failed;
    }
    memory_free(all);
    if (result != STATUS_OK || !failed) return result;
    return comm_agree(so_far == STATUS_OK ? so_far : status_set(so_far, "%s", sentence));
}

status together_rehearse(void) {
    enum { BYTES = 1 << 20 };
    uint64_t ranks = (uint64_t)comm_world().world;
    if (ranks < 2) return STATUS_OK;
    char *from = memory_new(BYTES, 1), *to = memory_new(BYTES, 1);
    comm_order orders[] = { { COMM_EXCHANGE, from, to, BYTES / ranks * ranks, BYTES / ranks },
                            { COMM_GATHER, from, to, BYTES / ranks * ranks, BYTES / ranks } };
    bool enough = from && to;
    for (int i = 0; enough && i < 2; i++) {
        comm_start(&orders[i]);
        comm_wait(to);
    }
    memory_free(from);
    memory_free(to);
    return enough ? comm_failed() : status_set(STATUS_FAILED, "no memory to speak to other ranks");
}
