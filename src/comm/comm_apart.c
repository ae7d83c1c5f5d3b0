/* Ranks whose movements are a device's: an order goes to NCCL, on the device's lane of them, between two
 * events. And words between hosts where no MPI has started them: they pass through some of the device's
 * memory. */
#include "comm/comm_apart.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/nccl/nccl.h"
#include "comm/presence.h"

static struct {
    bool joined;
    comm_lane lane;
    comm_pair *pairs;
    uint64_t given; /* movements */
    struct {
        const void *to;
        uint64_t event;        /* it has arrived */
    } under_way[COMM_AT_ONCE]; /* by number */
    uint64_t last;             /* the event of the latest */
} apart;

/* ---- moving ---- */

/* NCCL gathers equal shares by itself; where the last ones are shorter, each is sent to all. */
static status put_on_lane(const comm_order *o) {
    comm_ranks ranks = comm_world();
    bool of_all = !o->group || o->group == ranks.world;
    if (o->kind == COMM_GATHER && of_all && o->whole == o->share * (uint64_t)ranks.world)
        return nccl_gather(o->to, o->share, apart.lane.stream);
    uint64_t bytes = 0;
    for (int r = 0; r < ranks.world; r++) {
        apart.pairs[r] = r == ranks.rank ? (comm_pair){ 0 } : comm_part(o, r, ranks);
        bytes += apart.pairs[r].send_bytes + apart.pairs[r].receive_bytes;
    }
    return bytes ? nccl_swap(apart.pairs, apart.lane.stream) : STATUS_OK;
}

static void heed(status s) {
    if (s != STATUS_OK) comm_break(status_message());
}

void comm_start_apart(const comm_order *o) {
    const comm_lane *l = &apart.lane;
    if (!apart.joined) return;
    l->begin(l->device);
    presence_comes_on();
    if (!comm_is_broken()) heed(put_on_lane(o));
    apart.last = l->mark(l->device);
    uint64_t number = apart.given++ % COMM_AT_ONCE;
    apart.under_way[number].to = o->to, apart.under_way[number].event = apart.last;
}

/* The latest movement to that place. What is none of the last has been started before them. */
void comm_wait_apart(const void *to) {
    uint64_t back = 1, most = apart.given < COMM_AT_ONCE ? apart.given : COMM_AT_ONCE;
    if (!apart.joined) return;
    assert(most && "nothing has been started");
    while (back < most && apart.under_way[(apart.given - back) % COMM_AT_ONCE].to != to) back++;
    apart.lane.after(apart.lane.device, apart.under_way[(apart.given - back) % COMM_AT_ONCE].event);
}

/* ---- waiting ---- */

/* Nothing is under way afterwards: what NCCL has not moved it gives up. */
static void give_up(const char *sentence) {
    comm_break(sentence);
    nccl_abandon();
}

/* Whoever has given up is silent as well: it has said why before. */
static void name_silent(char sentence[COMM_SENTENCE]) {
    int silent = comm_find_silent(), limit = (int)(comm_limit_seconds() + 0.5);
    if (presence_is_over(true, sentence)) return;
    const char *host = silent >= 0 ? presence_host(silent) : NULL;
    if (silent >= 0)
        snprintf(sentence, COMM_SENTENCE, "rank %d%s%s has been waited for for %d s (--rank-timeout)", silent,
                 host ? " on " : "", host ? host : "", limit);
    else
        snprintf(sentence, COMM_SENTENCE, "other ranks have been waited for for %d s (--rank-timeout); %s",
                 limit,
                 silent == COMM_ALL_ANSWER ? "all of them answer, so a GPU or NCCL stands still"
                                           : "NCCL does not say which");
    presence_names(sentence);
}

/* NCCL does not say whom it waits for. A rank that works waits like this one, and answers. */
static void waited_too_long(void) {
    char sentence[COMM_SENTENCE];
    if (!presence_is_over(true, sentence)) name_silent(sentence);
    give_up(sentence);
}

/* A rank that has ended is a reason of NCCL's, which does not know whose. */
static void nccl_gave_up(void) {
    char sentence[COMM_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", status_message());
    presence_is_over(true, sentence);
    give_up(sentence);
}

static void look_at_others(long tries, double waited) {
    enum { OFTEN = 32 };
    char sentence[COMM_SENTENCE];
    presence_waits(waited, comm_limit_seconds());
    if (tries % OFTEN == 0 && presence_is_over(false, sentence)) give_up(sentence);
    comm_answer();
}

/* A nap counts for a second at most: where it took longer, this process was suspended itself. */
static void await(uint64_t event) {
    enum { SOON = 100, NAP = 20000, LONG_NAP = 200000 };
    const comm_lane *l = &apart.lane;
    double last = clock_seconds(), waited = 0;
    for (long tries = 0; !comm_is_broken() && !l->happened(l->device, event); tries++) {
        struct timespec nap = { .tv_nsec = tries < SOON ? NAP : LONG_NAP };
        nanosleep(&nap, NULL);
        double time = clock_seconds();
        waited += time - last < 1 ? time - last : 1;
        last = time;
        if (nccl_failed() != STATUS_OK) nccl_gave_up();
        if (waited > comm_limit_seconds())
            waited_too_long();
        else if (tries >= SOON)
            look_at_others(tries, waited);
    }
}

void comm_settle(void) {
    if (!apart.joined) return;
    if (apart.given) await(apart.last);
    if (!comm_is_broken() && nccl_failed() != STATUS_OK) nccl_gave_up();
    if (comm_is_broken()) nccl_abandon();
}

/* ---- words ---- */

enum { ROW = 1024, PIECE = 1 << 20 }; /* bytes at a time: of each rank's, and of one rank's */

uint64_t comm_words_bytes(int world) { return (uint64_t)world * ROW > PIECE ? (uint64_t)world * ROW : PIECE; }

/* At most ROW bytes, from byte `at` on. */
static void share_some(const char *mine, char *all, uint64_t bytes, uint64_t at) {
    const comm_lane *l = &apart.lane;
    comm_ranks ranks = comm_world();
    uint64_t some = bytes - at < ROW ? bytes - at : ROW;
    l->put(l->device, (char *)l->words + (uint64_t)ranks.rank * some, mine + at, some);
    l->open(l->device);
    presence_comes_on();
    heed(nccl_gather(l->words, some, l->stream));
    await(l->mark(l->device));
    l->shut(l->device);
    for (int r = 0; r < ranks.world; r++)
        l->get(l->device, all + (uint64_t)r * bytes + at, (char *)l->words + (uint64_t)r * some, some);
}

status comm_apart_share(const void *mine, void *all, uint64_t bytes) {
    assert(apart.joined && apart.lane.words);
    for (uint64_t at = 0; at < bytes && !comm_is_broken(); at += ROW) share_some(mine, all, bytes, at);
    return comm_failed();
}

static void pass_some(const comm_piece *x, uint64_t at, uint64_t bytes) {
    const comm_lane *l = &apart.lane;
    comm_ranks ranks = comm_world();
    bool sends = ranks.rank == x->from;
    memset(apart.pairs, 0, (size_t)ranks.world * sizeof *apart.pairs);
    comm_pair *p = &apart.pairs[sends ? x->to : x->from];
    *p = sends ? (comm_pair){ .send = l->words, .send_bytes = bytes }
               : (comm_pair){ .receive = l->words, .receive_bytes = bytes };
    if (sends) l->put(l->device, l->words, (const char *)x->what + at, bytes);
    l->open(l->device);
    presence_comes_on();
    heed(nccl_swap(apart.pairs, l->stream));
    await(l->mark(l->device));
    l->shut(l->device);
    if (!sends) l->get(l->device, (char *)x->into + at, l->words, bytes);
}

/* One after the other, in the order that all have. Others have nothing to do with a piece. */
status comm_apart_pass(const comm_piece *list, int count) {
    int rank = comm_world().rank;
    for (int i = 0; i < count; i++) {
        const comm_piece *x = &list[i];
        if (rank != x->from && rank != x->to) continue;
        for (uint64_t at = 0; at < x->bytes && !comm_is_broken(); at += PIECE)
            pass_some(x, at, x->bytes - at < PIECE ? x->bytes - at : PIECE);
    }
    return comm_failed();
}

/* ---- joining ---- */

/* The launcher's own port is taken by it. */
static void settle_address(void) {
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    char address[300];
    if (getenv("NCCL_COMM_ID")) return;
    int number = port ? atoi(port) : 0;
    snprintf(address, sizeof address, "%.255s:%d", host ? host : "127.0.0.1",
             number > 0 ? number + 1 : 29501);
    setenv("NCCL_COMM_ID", address, 1);
}

/* By MPI: all ranks learn of one's failure. */
static status agreed(const launch *l, status mine) { return l->by_mpi ? comm_agree(mine) : mine; }

static status introduce(const launch *l, unsigned char id[NCCL_ID_BYTES]) {
    if (!l->by_mpi) {
        settle_address();
        return nccl_id(id);
    }
    TRY(comm_agree(l->rank == 0 ? nccl_id(id) : STATUS_OK));
    return comm_tell(id, NCCL_ID_BYTES);
}

status comm_join(const launch *l, const comm_lane *lane) {
    unsigned char id[NCCL_ID_BYTES] = { 0 };
    apart.pairs = memory_new((size_t)l->world, sizeof *apart.pairs);
    status enough = apart.pairs ? STATUS_OK : status_set(STATUS_FAILED, "no memory for ranks");
    if (enough == STATUS_OK && !l->by_mpi) enough = comm_take_words(l->world);
    TRY(agreed(l, enough == STATUS_OK ? nccl_find() : enough));
    TRY(introduce(l, id));
    TRY(agreed(l, nccl_join(id, l->rank, l->world)));
    apart.joined = true, apart.lane = *lane;
    if (l->by_mpi) return STATUS_OK;
    comm_be((comm_ranks){ l->rank, l->world });
    return presence_open();
}

void comm_apart_close(void) {
    if (comm_is_broken())
        nccl_abandon();
    else
        nccl_close();
    presence_close();
    memory_free(apart.pairs);
    apart.pairs = NULL, apart.joined = false, apart.given = 0;
}

/* ---- memory ---- */

/* Of the device: buffers of the ring and of each pair, and the code of its kernels. A process group of
 * PyTorch's was reported to take a gigabyte (pytorch#153302). */
comm_reserved comm_reserve_apart(int64_t ranks) {
    const uint64_t mib = 1 << 20, others = (uint64_t)(ranks > 1 ? ranks - 1 : 0);
    if (!others) return (comm_reserved){ 0 };
    return (comm_reserved){ .device = 1024 * mib + 16 * mib * others, .host = 256 * mib + 8 * mib * others };
}
