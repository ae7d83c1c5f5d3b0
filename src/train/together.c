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
    message mine = { *note, so_far != STATUS_OK };
    const void *heard;
    char sentence[STATUS_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", so_far == STATUS_OK ? "" : status_message());
    TRY(comm_hear(&mine, sizeof mine, &heard));
    const message *all = heard;
    bool failed = false;
    *note = (together_note){ 0 };
    for (int r = 0; r < world; r++) {
        note->labels += all[r].note.labels, note->stops |= all[r].note.stops;
        failed |= all[r].failed;
    }
    if (!failed) return STATUS_OK;
    return comm_agree(so_far == STATUS_OK ? so_far : status_set(so_far, "%s", sentence));
}

status together_end(status mine) {
    int world = comm_world().world;
    if (world < 2 || comm_is_broken()) return mine;
    const void *heard;
    TRY(comm_hear(&mine, sizeof mine, &heard));
    const status *all = heard;
    bool alike = true;
    for (int r = 0; r < world; r++) alike &= all[r] == mine;
    return alike ? mine : comm_agree(mine);
}

static train_rank measure(const exec *e, const decision *d, const train_result *r, const exec_measured *m) {
    bool apart = d->plan.device->apart;
    uint64_t there = m->pools[POOL_MEMORY] + device_parts_sum(&m->beside);
    train_rank own = { .planned_bytes = d->plan.peak_bytes,
                       .peak_bytes = apart ? there : exec_resident_peak(e),
                       .runtime_bytes = apart ? device_parts_sum(&m->beside) : r->runtime_bytes,
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
    r->ranks = memory_new((size_t)world, sizeof *r->ranks);
    status ready = r->ranks ? exec_measure(e, &measured)
                            : status_set(STATUS_FAILED, "no memory for a report of %d ranks", world);
    TRY(comm_agree(ready));
    train_rank own = measure(e, d, r, &measured);
    r->rank_count = world;
    return comm_share(&own, r->ranks, sizeof own);
}
