/* Ranks that write files of whole tensors, of which each may have a share alone. They meet in rounds: all say
 * what they want of whom, and all of that moves at once. So it is in nobody's way in which order each writes,
 * and a rank that fails is heard by all in the next round. Where nothing is shared that is all there is to a
 * round. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "exec/exec_internal.h"

typedef enum { GOES_ON, WANTS, IS_OVER, HAS_FAILED } meeting_word;

/* What a rank says in a round; of WANTS what it wants. */
typedef struct {
    int32_t word, from;
    uint32_t index; /* of the plan's persistent tensors */
    uint64_t first, bytes;
} wish;
static_assert(sizeof(wish) <= COMM_WORD, "a wish is one word");

enum { BETWEEN_ROUNDS = 16 << 20 }; /* bytes that are written before a failure elsewhere is heard of */

status meeting_open(exec *e) {
    if (!plan_has_shares(e->plan) || comm_world().world < 2) return STATUS_OK;
    e->meeting.pieces = memory_new((size_t)comm_world().world, sizeof *e->meeting.pieces);
    return e->meeting.pieces ? STATUS_OK : status_set(STATUS_FAILED, "no memory to bind a plan");
}

void meeting_close(exec *e) { memory_free(e->meeting.pieces); }

void exec_meet(exec *e, int writers) {
    if (comm_world().world < 2) return;
    e->meeting.goes_on = true, e->meeting.writers = writers;
}

/* Is there something that a rank reaches by way of the staging buffer alone, be it its own? Then what comes
 * from others has the first half of that, and what goes to them the second. */
static bool halves(const exec *e) { return e->plan->device->apart || plan_file_bytes(e->plan); }

static uint64_t piece_bytes(const exec *e) {
    enum { ALIGN = 64 };
    uint64_t all = e->plan->staging_bytes;
    return halves(e) ? all / 2 / ALIGN * ALIGN : all;
}

/* All of a wish, in the memory of the host: where it is, or in the second half of the staging buffer. */
static status find(exec *e, const wish *w, const void **data) {
    exec_value own = exec_own(e, &e->plan->persistent[w->index]);
    exec_part part = { 0 };
    char *room = exec_buffer(e, PLAN_STAGING);
    *data = room;
    if (!halves(e)) {
        TRY(exec_view_here(e, &own, w->first, w->bytes, &part));
        *data = part.data;
        return STATUS_OK;
    }
    *data = room += piece_bytes(e);
    status result = STATUS_OK;
    e->staged_from = piece_bytes(e);
    for (uint64_t done = 0; result == STATUS_OK && done < w->bytes; done += part.bytes) {
        result = exec_view_here(e, &own, w->first + done, w->bytes - done, &part);
        if (result == STATUS_OK && part.data != room + done) memmove(room + done, part.data, part.bytes);
    }
    e->staged_from = 0;
    return result;
}

/* Of a round in which nobody has failed. Where there is one room for what goes to others, one piece goes
 * after the other, in the order of those that want it. */
static status move(exec *e, const wish *all, void *into) {
    comm_ranks ranks = comm_world();
    status found = STATUS_OK;
    int count = 0;
    for (int r = 0; r < ranks.world; r++) {
        const wish *w = &all[r];
        if (w->word != WANTS) continue;
        comm_piece *x = &e->meeting.pieces[count++];
        *x = (comm_piece){ .from = w->from, .to = r, .what = into, .into = into, .bytes = w->bytes };
        if (w->from == ranks.rank) {
            status is = find(e, w, &x->what); /* what is not found moves all the same, for nothing */
            if (found == STATUS_OK) found = is;
        }
        if (!halves(e)) continue;
        TRY(comm_pass(x, 1));
        count = 0;
    }
    if (count) TRY(comm_pass(e->meeting.pieces, count));
    return found;
}

static status round_of(exec *e, const wish *mine, void *into) {
    const void *heard;
    bool all_over = true;
    status said = comm_hear(mine, sizeof *mine, &heard);
    if (said != STATUS_OK) e->meeting.goes_on = false;
    TRY(said);
    if (mine->word == HAS_FAILED) e->meeting.goes_on = false;
    if (mine->word == HAS_FAILED) return STATUS_OK; /* its sentence stays */
    const wish *all = heard;
    for (int r = 0; r < comm_world().world; r++) {
        all_over &= all[r].word == IS_OVER;
        if (all[r].word != HAS_FAILED) continue;
        e->meeting.goes_on = false;
        return status_set(STATUS_INTERRUPTED, "rank %d can't write its files", r);
    }
    if (all_over) e->meeting.goes_on = false;
    return move(e, all, into);
}

status meeting_view(exec *e, bool here, const meeting_place *at, exec_part *part) {
    wish mine = { .word = GOES_ON };
    if (!e->meeting.goes_on && here) return STATUS_OK;
    if (!e->meeting.goes_on)
        return status_set(STATUS_INTERRUPTED, "rank %d is asked for what it has, and doesn't listen",
                          at->rank);
    if (here && e->meeting.writers < 2) return STATUS_OK;
    uint64_t most = e->meeting.pieces ? piece_bytes(e) : BETWEEN_ROUNDS;
    if (part->bytes > most) part->bytes = most;
    if (!here) mine = (wish){ WANTS, at->rank, at->index, at->first, part->bytes };
    return round_of(e, &mine, part->data);
}

/* A failure is said, and ends it for all. */
status exec_served(exec *e, status mine) {
    wish own = { .word = mine == STATUS_OK ? IS_OVER : HAS_FAILED };
    while (e->meeting.goes_on && own.word == IS_OVER) {
        mine = round_of(e, &own, NULL);
        if (mine != STATUS_OK) own.word = HAS_FAILED;
    }
    /* It ends as it was going to, heard or not. */
    if (e->meeting.goes_on) STATUS_IGNORED(round_of(e, &own, NULL));
    return mine;
}
