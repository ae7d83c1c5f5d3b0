#include "comm/comm.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/mailbox.h"
#include "base/memory.h"
#include "comm/module.h"

static struct {
    comm_ranks ranks;
    const comm_module *module; /* NULL: one rank */
    comm_pair *pairs;
    mailbox *orders;
    counter *done;                       /* movements */
    uint64_t given;                      /* the same, that were started */
    const void *under_way[COMM_AT_ONCE]; /* by number: where it moves to */
    char host[COMM_HOST_BYTES];
    char sentence[COMM_SENTENCE];
    atomic_bool failed; /* nothing is moved any more; `sentence` says why */
    double limit;       /* seconds that others are waited for */
} here = { .ranks = { 0, 1 }, .limit = 1e9 };

comm_ranks comm_world(void) { return here.ranks; }

void comm_limit(double seconds) { here.limit = seconds; }

/* ---- moving, on the thread ---- */

/* Bytes of rank r's share. */
static uint64_t share_of(const comm_order *o, int r) {
    uint64_t before = (uint64_t)r * o->share;
    if (before >= o->whole) return 0;
    return o->whole - before < o->share ? o->whole - before : o->share;
}

static comm_pair pair_of(const comm_order *o, int r, int rank) {
    const char *from = o->from;
    char *to = (char *)o->to + (uint64_t)r * o->share;
    uint64_t own = share_of(o, rank), other = share_of(o, r);
    if (o->kind == COMM_GATHER) return (comm_pair){ from, to, own, other };
    return (comm_pair){ from + (uint64_t)r * o->share, to, other, own };
}

static void move(const comm_order *o) {
    int rank = here.ranks.rank;
    for (int r = 0; r < here.ranks.world; r++) {
        comm_pair p = pair_of(o, r, rank);
        if (r == rank && p.receive_bytes) memmove(p.receive, p.send, p.receive_bytes);
        if (o->kind == COMM_EXCHANGE)
            memset((char *)p.receive + p.receive_bytes, 0, o->share - p.receive_bytes);
        if (here.pairs) here.pairs[r] = p;
    }
    if (!here.module || atomic_load(&here.failed)) return;
    if (here.module->swap(here.pairs, here.limit, here.sentence)) atomic_store(&here.failed, true);
}

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

/* The latest movement to that place. */
void comm_wait(const void *to) {
    for (uint64_t back = 1; here.module && back <= COMM_AT_ONCE && back <= here.given; back++) {
        uint64_t number = here.given - back;
        if (here.under_way[number % COMM_AT_ONCE] != to) continue;
        counter_wait(here.done, number + 1);
        return;
    }
    assert(!here.module && "nothing is on its way to that place");
}

bool comm_is_broken(void) { return atomic_load(&here.failed); }

status comm_failed(void) {
    if (!comm_is_broken()) return STATUS_OK;
    return status_set(STATUS_FAILED, "rank %d can't reach the others: %s", here.ranks.rank, here.sentence);
}

/* ---- what hosts say to each other ---- */

status comm_share(const void *mine, void *all, uint64_t bytes) {
    comm_order o = { COMM_GATHER, mine, all, bytes * (uint64_t)here.ranks.world, bytes };
    comm_start(&o);
    comm_wait(all);
    return comm_failed();
}

status comm_tell(void *what, uint64_t bytes) {
    if (!here.module) return STATUS_OK;
    char *all = memory_new((size_t)here.ranks.world, bytes);
    if (!all) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    status result = comm_share(what, all, bytes);
    if (result == STATUS_OK) memcpy(what, all, bytes);
    memory_free(all);
    return result;
}

typedef struct {
    status is;
    char host[COMM_HOST_BYTES], sentence[STATUS_SENTENCE];
} report;

/* What is wrong on all ranks alike is said without the name of one. */
static status first_failure(const report *all) {
    int world = here.ranks.world, first = 0, alike = 0;
    while (first < world && all[first].is == STATUS_OK) first++;
    if (first == world) return STATUS_OK;
    const report *f = &all[first];
    for (int r = 0; r < world; r++) alike += all[r].is == f->is && strcmp(all[r].sentence, f->sentence) == 0;
    if (alike == world) return status_set(f->is, "%s", f->sentence);
    return status_set(f->is, "rank %d on %s: %s", first, f->host, f->sentence);
}

status comm_agree(status mine) {
    if (!here.module) return mine;
    report own = { .is = mine };
    report *all = memory_new((size_t)here.ranks.world, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    snprintf(own.host, sizeof own.host, "%s", here.host);
    if (mine != STATUS_OK) snprintf(own.sentence, sizeof own.sentence, "%s", status_message());
    status result = comm_share(&own, all, sizeof own);
    if (result == STATUS_OK) result = first_failure(all);
    memory_free(all);
    return result;
}

/* ---- opening ---- */

uint64_t comm_reserve(int64_t ranks) {
    return ranks < 2 ? 0 : (14u << 20) + (uint64_t)(ranks - 1) * (128u << 10);
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
    here.pairs = memory_new((size_t)world, sizeof *here.pairs);
    here.done = counter_new();
    if (!here.pairs || !here.done) return status_set(STATUS_FAILED, "no memory for ranks");
    return mailbox_open(&(mailbox_options){ .item_bytes = sizeof(comm_order),
                                            .room = COMM_AT_ONCE,
                                            .stack_bytes = STACK_BYTES,
                                            .handle = handle },
                        &here.orders);
}

void comm_close(void) {
    mailbox_close(here.orders);
    if (here.module) here.module->close();
    counter_free(here.done);
    memory_free(here.pairs);
    here.module = NULL, here.orders = NULL, here.done = NULL, here.pairs = NULL;
    here.ranks = (comm_ranks){ 0, 1 };
}

void comm_abort(int code) {
    if (here.module) here.module->abort(code);
}
