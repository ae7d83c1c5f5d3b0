#define _GNU_SOURCE
#include "cli/ranks.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/threads.h"
#include "cli/ranks_alike.h"
#include "device/device.h"
#include "exec/joined.h"
#include "run/products.h"

enum { HOST_BYTES = 64 };

/* Where a rank runs. */
typedef struct {
    char host[HOST_BYTES];
    cpu_set_t processors; /* that it may run on */
    int64_t threads;      /* so many, if it were alone there */
} place;

static bool same_host(const place *a, const place *b) { return strcmp(a->host, b->host) == 0; }

/* Ranks that may run on the same processors divide them: those of a socket, or, where the launcher has bound
 * none of them, of their host. */
static int64_t sharing_with(const place *all, int world, const place *p) {
    int64_t sharing = 0;
    for (int r = 0; r < world; r++)
        sharing += same_host(&all[r], p) && CPU_EQUAL(&all[r].processors, &p->processors);
    return sharing;
}

static int64_t threads_of(const place *all, int world, const place *p) {
    int64_t own = p->threads / sharing_with(all, world, p);
    return own > 1 ? own : 1;
}

/* How many ranks each host has, where all have as many and theirs follow each other; else 0. */
static int64_t of_each_host(const place *all, int world) {
    int of_host = 1;
    while (of_host < world && same_host(&all[of_host], &all[0])) of_host++;
    for (int r = 0; r < world; r++) {
        int first = r / of_host * of_host;
        bool as_before = r && r == first && same_host(&all[r], &all[r - 1]);
        if (as_before || !same_host(&all[r], &all[first])) return 0;
    }
    return world % of_host ? 0 : of_host;
}

/* All have one plan, and so the fewest threads that one of them has. Pinned by itself each would take the
 * first processors of those that they share. */
static status settle_places(options *o) {
    comm_ranks ranks = comm_world();
    place own = { .threads = threads_available() };
    const void *heard;
    if (gethostname(own.host, sizeof own.host - 1) != 0) own.host[0] = 0;
    if (sched_getaffinity(0, sizeof own.processors, &own.processors) != 0) CPU_ZERO(&own.processors);
    TRY(comm_hear(&own, sizeof own, &heard));
    const place *all = heard;
    int64_t least = INT64_MAX, of_host = 0;
    for (int r = 0; r < ranks.world; r++) {
        int64_t threads = threads_of(all, ranks.world, &all[r]);
        if (threads < least) least = threads;
        of_host += same_host(&all[r], &own);
    }
    o->run.sharing = sharing_with(all, ranks.world, &own);
    o->run.of_each_host = of_each_host(all, ranks.world);
    o->run.of_host = of_host;
    if (!o->run.threads) o->run.threads = least;
    if (of_host > 1) threads_pin_allow(false);
    return STATUS_OK;
}

/* How long it is waited for that all begin, and the moment when that is over. */
static struct {
    unsigned seconds;
    double until;
} beginning;

static void wait_until_all_begin(unsigned seconds) {
    beginning.seconds = seconds, beginning.until = clock_seconds() + seconds;
    alarm(seconds);
}

/* A transport begins where all are there, and waits for them without an end. Rank 0 says it first, and the
 * launcher then ends all; where it is itself what is waited for, another does. Whoever hears of it late was
 * suspended: a launcher wakes whom it is about to end, and then another one has said it already; or all were
 * suspended together, and begin to wait anew. */
static void end_waiting(int number) {
    static const double LATE = 0.5;
    static const char words[] = "snug: not all processes have begun within --rank-timeout\n";
    (void)number;
    if (clock_seconds() > beginning.until + LATE) {
        wait_until_all_begin(beginning.seconds);
        return;
    }
    ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
    (void)written;
    _exit(STATUS_FAILED);
}

/* Of MPI, or for a device apart of NCCL. */
static status open_in_time(const launch *l, const device *on, int64_t seconds) {
    enum { AFTER_RANK_0 = 2 };
    void (*before)(int) = signal(SIGALRM, end_waiting);
    wait_until_all_begin((unsigned)seconds + (l->rank ? AFTER_RANK_0 : 0));
    status result = on ? joined_open(on, l) : comm_open(l);
    alarm(0);
    signal(SIGALRM, before);
    return result;
}

/* A sanitizer keeps what was freed, which is in its own reserve (device_runtime_reserve). */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool watched = true;
#else
static const bool watched = false;
#endif

/* All plan with what the transport takes on the rank where it takes most. */
static status open_transport(const launch *l, int64_t seconds) {
    uint64_t before = device_resident(), most = 0;
    TRY(open_in_time(l, NULL, seconds));
    uint64_t now = device_resident(), mine = now > before ? now - before : 0;
    const void *heard;
    TRY(comm_hear(&mine, sizeof mine, &heard));
    const uint64_t *all = heard;
    for (int r = 0; r < l->world; r++)
        if (all[r] > most) most = all[r];
    if (!watched) comm_reserve_seen(most);
    return STATUS_OK;
}

/* What a rank computes on. */
typedef struct {
    bool apart;
    unsigned char uuid[16]; /* zeros: not known */
} engine;

static status refuse_engines(const engine *all, int r, int q, const device *on) {
    if (all[r].apart != all[q].apart)
        return status_set(
            STATUS_INVALID,
            "rank %d computes on a %s, and rank %d on a %s; say --device cpu, or start one rank "
            "for each GPU",
            q, all[q].apart ? "GPU" : "CPU", r, all[r].apart ? "GPU" : "CPU");
    return status_set(STATUS_INVALID,
                      "ranks %d and %d compute on one GPU (%s): start one for each GPU, without a number in "
                      "--device, or have the launcher give each its own",
                      q, r, on->gpu && on->gpu->title[0] ? on->gpu->title : on->name);
}

/* All on GPUs, each on its own, or none. */
static status compare_engines(const device *on) {
    static const unsigned char unknown[16];
    int world = comm_world().world;
    engine own = { .apart = on->apart };
    const void *heard;
    if (on->apart && on->gpu) memcpy(own.uuid, on->gpu->uuid, sizeof own.uuid);
    TRY(comm_hear(&own, sizeof own, &heard));
    const engine *all = heard;
    for (int r = 1; r < world; r++)
        for (int q = 0; q < r; q++) {
            bool known = memcmp(all[r].uuid, unknown, sizeof unknown) != 0;
            bool one = known && memcmp(all[r].uuid, all[q].uuid, sizeof unknown) == 0;
            if (one || all[r].apart != all[q].apart) return refuse_engines(all, r, q, on);
        }
    return STATUS_OK;
}

/* MPI speaks for hosts where it has started them, and introduces GPUs to each other. Without it there is NCCL
 * alone, which compares GPUs by itself. */
static status join(const launch *l, const options *o) {
    const device *on;
    if (l->by_mpi) TRY(open_transport(l, o->run.rank_timeout));
    status found = setup_device(&o->run, &on);
    TRY(l->by_mpi ? comm_agree(found) : found);
    if (l->by_mpi) TRY(compare_engines(on));
    if (on->apart) return open_in_time(l, on, o->run.rank_timeout);
    return l->by_mpi ? STATUS_OK : comm_open(l);
}

void ranks_end(void) {
    comm_close();
    joined_close();
}

status ranks_begin(const launch *l, options *o, output *people) {
    if (l->world < 2) return STATUS_OK;
    comm_limit((double)o->run.rank_timeout);
    TRY(join(l, o));
    TRY(ranks_alike(o, people));
    TRY(settle_places(o));
    if (l->rank && o->run.rates == RATES_AUTO) o->run.rates = RATES_KNOWN; /* rank 0's are taken */
    return STATUS_OK;
}

/* What a rank may take, and where it is. */
typedef struct {
    char host[HOST_BYTES];
    uint64_t budget;
} purse;

/* Whose budget decides, where they differ; what is said of it when nothing fits. */
static struct {
    int rank; /* -1: all have the same */
    char host[HOST_BYTES];
} poorest = { .rank = -1 };

static status settle_budget(setup *s) {
    purse mine = { .budget = s->budget };
    const void *heard;
    if (gethostname(mine.host, sizeof mine.host - 1) != 0) mine.host[0] = 0;
    TRY(comm_hear(&mine, sizeof mine, &heard));
    const purse *all = heard;
    int least = 0;
    bool differ = false;
    for (int r = 1; r < s->comm.world; r++) {
        differ |= all[r].budget != all[0].budget;
        if (all[r].budget < all[least].budget) least = r;
    }
    if (differ) {
        poorest.rank = least, s->budget = all[least].budget;
        memcpy(poorest.host, all[least].host, sizeof poorest.host);
    }
    if (s->budget < UINT64_MAX) s->request.run.memory = s->budget;
    return STATUS_OK;
}

status ranks_settle(setup *s) {
    if (s->comm.world < 2) return STATUS_OK;
    TRY(settle_budget(s));
    return comm_tell(&s->request.run.lower.rates, sizeof(device_rates));
}

/* What a run is told by: what it computes, and where it begins. */
typedef struct {
    uint64_t run;
    int64_t step;
} told_run;

/* And what its plan is told by. */
typedef struct {
    char products[HOST_BYTES]; /* how those of 16 bits are made */
    uint64_t peak_bytes, arena_bytes, choice;
} told_plan;

/* Ranks that began at different steps, or read other data, would train without a word. */
static status compare_runs(const setup *s, const resume *from) {
    char digits[IDENTITY_DIGEST_BYTES];
    const void *heard;
    uint64_t samples = s->train.samples * 31 + s->validation.samples;
    told_run mine = { .run = from ? hash_name(identity_digest(&from->run, digits)) : samples,
                      .step = from ? from->step : 0 };
    TRY(comm_hear(&mine, sizeof mine, &heard));
    const told_run *all = heard;
    for (int r = 1; r < comm_world().world; r++) {
        if (all[r].step != all[0].step)
            return status_set(STATUS_INVALID,
                              "rank %d would go on from step %lld, and rank 0 from step %lld: the folder of "
                              "the run is not one for all",
                              r, (long long)all[r].step, (long long)all[0].step);
        if (all[r].run != all[0].run)
            return status_set(STATUS_INVALID,
                              "rank %d finds other data, another model or other options than rank 0 finds",
                              r);
    }
    return STATUS_OK;
}

/* What rank 0 has chosen; of a run that is resumed, also what it has pinned. */
static status hear_choice(setup *s, const decision *d, search_point *point, uint64_t *held_bytes) {
    search_request *q = &s->request;
    *point = d->point, *held_bytes = d->held_bytes;
    TRY(comm_tell(point, sizeof *point));
    TRY(comm_tell(held_bytes, sizeof *held_bytes));
    TRY(comm_tell(q->pins, sizeof q->pins));
    TRY(comm_tell(q->lossy, sizeof q->lossy));
    return comm_tell(&q->micro_batch, sizeof q->micro_batch);
}

static told_plan tell_plan(const decision *d) {
    const compose_choice *c = &d->point.choice;
    char words[PASS_MAX * (PASS_SETTING_BYTES + 1) + 64];
    size_t n = (size_t)snprintf(words, sizeof words, "%lld", (long long)c->micro_batch);
    for (int i = 0; pass_table[i] && n < sizeof words; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, ",%s", c->settings[i].text);
    told_plan t = { .peak_bytes = d->plan.peak_bytes,
                    .arena_bytes = d->plan.pools[POOL_MEMORY].arena_bytes,
                    .choice = hash_name(words) };
    char kind[PRODUCTS_KIND_BYTES];
    snprintf(t.products, sizeof t.products, "%s", products_kind(d, kind));
    return t;
}

static status refuse_plan(int r, const told_plan *is, const told_plan *first) {
    if (strcmp(is->products, first->products) != 0)
        return status_set(STATUS_INVALID,
                          "rank %d multiplies bf16 another way than rank 0 (%s, and not %s), so bits would "
                          "depend on the ranks; say --instructions " PRODUCTS_WIDENED,
                          r, is->products, first->products);
    return status_set(STATUS_INVALID,
                      "rank %d plans otherwise than rank 0 (%llu bytes at the peak, not %llu): their builds, "
                      "processors, files or options differ",
                      r, (unsigned long long)is->peak_bytes, (unsigned long long)first->peak_bytes);
}

static status compare_plans(const decision *d) {
    told_plan mine = tell_plan(d);
    const void *heard;
    TRY(comm_hear(&mine, sizeof mine, &heard));
    const told_plan *all = heard;
    for (int r = 1; r < comm_world().world; r++)
        if (memcmp(&all[r], &all[0], sizeof all[0]) != 0) return refuse_plan(r, &all[r], &all[0]);
    return STATUS_OK;
}

status ranks_agree(status so_far, setup *s, decision *d, const resume *from) {
    comm_ranks ranks = comm_world();
    search_point point;
    uint64_t held_bytes;
    if (ranks.world < 2) return so_far;
    if (so_far == STATUS_NO_FIT && poorest.rank >= 0)
        so_far = status_set(so_far, "%s; rank %d on %s has the smallest budget", status_message(),
                            poorest.rank, poorest.host);
    TRY(comm_agree(so_far));
    TRY(compare_runs(s, from));
    TRY(hear_choice(s, d, &point, &held_bytes));
    TRY(comm_agree(ranks.rank ? decision_follow(s, &point, held_bytes, d) : STATUS_OK));
    return compare_plans(d);
}
