#include "train/together.h"

#include <stdio.h>
#include <unistd.h>

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
    status result =
        comm_agree(from && to ? STATUS_OK : status_set(STATUS_FAILED, "no memory to speak to other ranks"));
    for (int i = 0; result == STATUS_OK && i < 2; i++) {
        comm_start(&orders[i]);
        comm_wait(to);
    }
    memory_free(from);
    memory_free(to);
    return result == STATUS_OK ? comm_failed() : result;
}

static train_rank measure(const exec *e, const decision *d, const train_result *r, const exec_measured *m) {
    train_rank own = { .planned_bytes = d->plan.peak_bytes,
                       .peak_bytes = exec_resident_peak(e),
                       .runtime_bytes = r->runtime_bytes,
                       .equal = true };
    for (int c = 0; c < CATEGORY_COUNT; c++)
        own.equal &= c == CATEGORY_RUNTIME || m->by_category[c] == d->plan.by_category[c];
    if (gethostname(own.host, sizeof own.host - 1) != 0) own.host[0] = 0;
    return own;
}

status together_measure(const exec *e, const decision *d, train_result *r) {
    int world = comm_world().world;
    exec_measured measured;
    if (world < 2) return STATUS_OK;
    TRY(exec_measure(e, &measured));
    train_rank own = measure(e, d, r, &measured);
    r->ranks = memory_new((size_t)world, sizeof *r->ranks);
    if (!r->ranks) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    r->rank_count = world;
    return comm_share(&own, r->ranks, sizeof own);
}
