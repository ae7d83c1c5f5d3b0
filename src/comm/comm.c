#include "comm/comm.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counter.h"
#include "base/mailbox.h"
#include "base/memory.h"
#include "base/units.h"
#include "comm/comm_apart.h"
#include "comm/module.h"
#include "comm/presence.h"

static struct {
    comm_ranks ranks;
    const comm_module *module; /* NULL: one rank */
    comm_pair *pairs;
    char *words; /* COMM_WORD bytes of each rank: what was said last */
    mailbox *orders;
    counter *done;                       /* movements */
    uint64_t given;                      /* the same, that were started */
    const void *under_way[COMM_AT_ONCE]; /* by number: where it moves to */
    char host[COMM_HOST_BYTES];
    char sentence[COMM_SENTENCE];
    atomic_bool failed; /* nothing is moved any more; `sentence` says why */
    comm_moved moved;   /* the thread's, until a movement is counted as done */
    const bool *only;   /* comm_only */
    double limit;       /* seconds that others are waited for */
    uint64_t seen;      /* bytes that the transport of these ranks takes; 0: nobody has looked */
} here = { .ranks = { 0, 1 }, .limit = 1e9 };

comm_ranks comm_world(void) { return here.ranks; }

void comm_limit(double seconds) { here.limit = seconds; }

void comm_only(const bool *with) { here.only = with; }

/* ---- moving, on the thread ---- */

static void move(const comm_order *o) {
    int rank = here.ranks.rank;
    uint64_t place = o->some ? o->some : o->share, came = 0, went = 0;
    for (int r = 0; r < here.ranks.world; r++) {
        comm_pair p = here.only && !here.only[r] ? (comm_pair){ 0 } : comm_part(o, r, here.ranks);
        if (r == rank && p.receive_bytes) memmove(p.receive, p.send, p.receive_bytes);
        if (o->kind == COMM_EXCHANGE && p.receive)
            memset((char *)p.receive + p.receive_bytes, 0, place - p.receive_bytes);
        if (r != rank) came += p.receive_bytes, went += p.send_bytes;
        if (here.pairs) here.pairs[r] = p;
    }
    if (!here.module || atomic_load(&here.failed)) return;
    double began = clock_seconds();
    if (here.module->swap(here.pairs, here.limit, here.sentence)) atomic_store(&here.failed, true);
    here.moved.seconds += clock_seconds() - began;
    here.moved.movements++, here.moved.bytes += came, here.moved.sent += went;
}

comm_moved comm_moved_so_far(void) { return here.moved; }

static void handle(void *context, const void *item, bool more) {
    (void)context, (void)more;
    move(item);
    counter_add(here.done);
}

/* ---- starting and waiting ---- */

void comm_start(const comm_order *o) {
    here.under_way[here.given++ % COMM_AT_ONCE] = o->to;
    if (here.module)
        mailbox_put(here.orders, o, true);
    else
        move(o);
}

/* The latest movement to that place. What is none of the last has been started before them. */
void comm_wait(const void *to) {
    uint64_t number = here.given, last = here.given > COMM_AT_ONCE ? here.given - COMM_AT_ONCE : 0;
    if (!here.module) return;
    while (number > last && here.under_way[(number - 1) % COMM_AT_ONCE] != to) number--;
    counter_wait(here.done, number);
}

void comm_break(const char *sentence) {
    if (comm_is_broken()) return;
    snprintf(here.sentence, sizeof here.sentence, "%s", sentence);
    presence_fails(sentence);
    atomic_store(&here.failed, true);
}

double comm_limit_seconds(void) { return here.limit; }

status comm_take_words(int world) {
    here.words = memory_new((size_t)world, COMM_WORD);
    return here.words ? STATUS_OK : status_set(STATUS_FAILED, "no memory for %d ranks", world);
}

void comm_be(comm_ranks ranks) {
    here.ranks = ranks;
    if (gethostname(here.host, sizeof here.host - 1) != 0) strcpy(here.host, "its host");
}

bool comm_is_broken(void) { return atomic_load(&here.failed); }

status comm_failed(void) {
    if (!comm_is_broken()) return STATUS_OK;
    return status_set(STATUS_FAILED, "rank %d can't reach the others: %s", here.ranks.rank, here.sentence);
}

/* ---- who is there ---- */

static bool is_idle(void) { return here.module && counter_value(here.done) == here.given; }

void comm_answer(void) {
    if (is_idle()) here.module->answer();
}

int comm_find_silent(void) {
    if (!here.module) return presence_find_silent();
    return is_idle() ? here.module->find_silent() : COMM_NOBODY_ASKED;
}

/* ---- what hosts say to each other ---- */

/* Are there ranks, and no MPI? */
static bool is_apart(void) { return !here.module && here.ranks.world > 1; }

status comm_share(const void *mine, void *all, uint64_t bytes) {
    if (is_apart()) return comm_apart_share(mine, all, bytes);
    comm_order o = { .kind = COMM_GATHER,
                     .from = mine,
                     .to = all,
                     .whole = bytes * (uint64_t)here.ranks.world,
                     .share = bytes };
    comm_start(&o);
    comm_wait(all);
    return comm_failed();
}

status comm_pass(const comm_piece *list, int count) {
    if (is_apart()) return comm_apart_pass(list, count);
    comm_order o = { .kind = COMM_PIECES, .from = list, .share = (uint64_t)count };
    comm_start(&o);
    comm_wait(NULL);
    return comm_failed();
}

status comm_hear(const void *mine, uint64_t bytes, const void **all) {
    assert(bytes <= COMM_WORD);
    *all = here.ranks.world > 1 ? here.words : mine;
    return here.ranks.world > 1 ? comm_share(mine, here.words, bytes) : STATUS_OK;
}

/* A word after the other. */
status comm_tell(void *what, uint64_t bytes) {
    char *at = what;
    for (uint64_t some; bytes; at += some, bytes -= some) {
        const void *all;
        some = bytes < COMM_WORD ? bytes : COMM_WORD;
        TRY(comm_hear(at, some, &all));
        if (here.ranks.rank) memcpy(at, all, some);
    }
    return STATUS_OK;
}

typedef struct {
    status is;
    char host[COMM_HOST_BYTES], sentence[STATUS_SENTENCE];
} report;
static_assert(sizeof(report) <= COMM_WORD, "how it went is one word");

/* What is wrong on all ranks alike is said without the name of one. A rank that was told to stop has not
 * failed: others may have. */
static status first_failure(const report *all) {
    int world = here.ranks.world, first = 0, alike = 0;
    while (first < world && (all[first].is == STATUS_OK || all[first].is == STATUS_INTERRUPTED)) first++;
    if (first == world)
        for (first = 0; first < world && all[first].is == STATUS_OK;) first++;
    if (first == world) return STATUS_OK;
    const report *f = &all[first];
    for (int r = 0; r < world; r++) alike += all[r].is == f->is && strcmp(all[r].sentence, f->sentence) == 0;
    if (alike == world) return status_set(f->is, "%s", f->sentence);
    return status_set(f->is, "rank %d on %s: %s", first, f->host, f->sentence);
}

status comm_agree(status mine) {
    if (here.ranks.world < 2) return mine;
    report own = { .is = mine };
    const void *all;
    snprintf(own.host, sizeof own.host, "%s", here.host);
    if (mine != STATUS_OK) snprintf(own.sentence, sizeof own.sentence, "%s", status_message());
    TRY(comm_hear(&own, sizeof own, &all));
    return first_failure(all);
}

/* ---- opening ---- */

/* Of Open MPI some 9 MiB with two ranks and 11 MiB with four were seen on one machine, where it copies from
 * the other process's memory; where it can't, 1 MiB for each other rank. */
uint64_t comm_reserve(int64_t ranks) {
    if (ranks < 2) return 0;
    uint64_t usual = (14u << 20) + (uint64_t)(ranks - 1) * (128u << 10);
    uint64_t seen = units_align(here.seen + here.seen / 8, 1 << 20);
    return ranks == here.ranks.world && seen > usual ? seen : usual;
}

void comm_reserve_seen(uint64_t bytes) { here.seen = bytes; }

/* Of a large message between each two of many ranks. All of them together are no more than a small plan has
 * room for, since a rehearsal is in no plan. */
static uint64_t large_share(uint64_t ranks) {
    const uint64_t most = 1 << 20, least = 32 << 10, together = 2 << 20;
    uint64_t share = together / ranks / least * least;
    return share < least ? least : share < most ? share : most;
}

/* One movement of each kind, of small messages, which travel through buffers of the transport's own, and of
 * large ones. */
static status rehearse(void) {
    const uint64_t ranks = (uint64_t)here.ranks.world, shares[] = { 64, 16 << 10, large_share(ranks) };
    uint64_t most = shares[2] * ranks;
    char *from = memory_new(most, 1), *to = memory_new(most, 1);
    status result =
        comm_agree(from && to ? STATUS_OK : status_set(STATUS_FAILED, "no memory to speak to other ranks"));
    for (int i = 0; result == STATUS_OK && i < 6; i++) {
        uint64_t share = shares[i / 2];
        comm_order o = { .kind = i % 2 ? COMM_GATHER : COMM_EXCHANGE,
                         .from = from,
                         .to = to,
                         .whole = share * ranks,
                         .share = share };
        memset(from, i, most);
        comm_start(&o);
        comm_wait(to);
        result = comm_failed();
    }
    memory_free(from);
    memory_free(to);
    return result;
}

/* Beside the program, or where the program was installed to. */
static void *open_module(const char *file) {
    static const char *const places[] = { "", "../lib/snug/" };
    char program[3072], path[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return NULL;
    program[length] = 0;
    *(strrchr(program, '/') + 1) = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s%s", program, places[i], file);
        if (access(path, R_OK) == 0) return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return NULL;
}

static status find_module(const launch *l, const comm_module **m) {
    static const char file[] = "snug-mpi.so";
    if (!l->by_mpi)
        return status_set(
            STATUS_INVALID,
            "%s started %d processes; on a CPU ranks speak to each other by MPI: start them with "
            "mpirun -n %d",
            l->launcher, l->world, l->world);
    void *object = open_module(file);
    const char *why = object ? NULL : dlerror();
    if (!object)
        return status_set(STATUS_INVALID,
                          "%s started %d processes, and %s, by which they speak to each other, is not to be "
                          "had: %s",
                          l->launcher, l->world, file, why ? why : "this build has none");
    *m = dlsym(object, COMM_MODULE_SYMBOL);
    if (!*m || (*m)->version != COMM_MODULE_VERSION)
        return status_set(STATUS_INVALID, "%s is of another version of snug", file);
    return STATUS_OK;
}

/* The library connects to others, and speaks to its network, on that thread: it expects the room of a usual
 * one. What it does not touch is no memory. */
enum { STACK_BYTES = 1 << 20 };

static status open_here(int world) {
    here.pairs = memory_new((size_t)world, sizeof *here.pairs);
    here.done = counter_new();
    if (!here.pairs || !here.done) return status_set(STATUS_FAILED, "no memory for ranks");
    TRY(comm_take_words(world));
    return mailbox_open(&(mailbox_options){ .item_bytes = sizeof(comm_order),
                                            .room = COMM_AT_ONCE,
                                            .stack_bytes = STACK_BYTES,
                                            .handle = handle },
                        &here.orders);
}

/* What one of them lacks here it can't tell the others, which would wait for it: so it ends them. */
status comm_open(const launch *l) {
    const comm_module *m = NULL;
    int rank, world;
    if (l->world < 2) return STATUS_OK;
    TRY(find_module(l, &m));
    if (m->open(&rank, &world, here.host, here.sentence))
        return status_set(STATUS_INVALID, "%s can't begin: %s", m->name, here.sentence);
    here.module = m;
    if (rank != l->rank || world != l->world)
        return status_set(
            STATUS_INVALID,
            "%s says that this is rank %d of %d, and %s says %d of %d: the program was built for "
            "another MPI than that of the launcher",
            l->launcher, l->rank, l->world, m->name, rank, world);
    here.ranks = (comm_ranks){ rank, world };
    status result = open_here(world);
    if (result == STATUS_OK) return rehearse();
    result = status_set(result, "rank %d on %s: %s", rank, here.host, status_message());
    comm_break(status_message());
    return result;
}

void comm_close(void) {
    comm_apart_close();
    mailbox_close(here.orders);
    if (here.module) here.module->close();
    counter_free(here.done);
    memory_free(here.pairs);
    memory_free(here.words);
    here.module = NULL, here.orders = NULL, here.done = NULL, here.pairs = NULL, here.words = NULL;
    here.ranks = (comm_ranks){ 0, 1 }, here.seen = 0, here.moved = (comm_moved){ 0 };
}

void comm_abort(int code) {
    if (here.module) here.module->abort(code);
}
