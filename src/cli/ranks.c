#define _GNU_SOURCE
#include "cli/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/threads.h"
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
static int64_t threads_of(const place *all, int world, const place *p) {
    int64_t sharing = 0;
    for (int r = 0; r < world; r++)
        sharing += same_host(&all[r], p) && CPU_EQUAL(&all[r].processors, &p->processors);
    return p->threads / sharing > 1 ? p->threads / sharing : 1;
}

/* All have one plan, and so the fewest threads that one of them has. Pinned by itself each would take the
 * first processors of those that they share. */
static status settle_places(options *o) {
    comm_ranks ranks = comm_world();
    place own = { .threads = threads_available() }, *all = memory_new((size_t)ranks.world, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    if (gethostname(own.host, sizeof own.host - 1) != 0) own.host[0] = 0;
    if (sched_getaffinity(0, sizeof own.processors, &own.processors) != 0) CPU_ZERO(&own.processors);
    status result = comm_share(&own, all, sizeof own);
    int64_t least = INT64_MAX, of_host = 0;
    for (int r = 0; r < ranks.world && result == STATUS_OK; r++) {
        int64_t threads = threads_of(all, ranks.world, &all[r]);
        if (threads < least) least = threads;
        of_host += same_host(&all[r], &own);
    }
    memory_free(all);
    TRY(result);
    o->run.of_host = of_host;
    if (!o->run.threads) o->run.threads = least;
    if (of_host > 1) threads_pin_allow(false);
    return STATUS_OK;
}

status ranks_begin(const launch *l, options *o) {
    if (l->world < 2) return STATUS_OK;
    TRY(comm_open(l));
    comm_limit((double)o->run.rank_timeout);
    TRY(settle_places(o));
    if (l->rank && o->run.rates == RATES_AUTO) o->run.rates = RATES_KNOWN; /* rank 0's are taken */
    return STATUS_OK;
}

status ranks_settle(setup *s) {
    int world = s->comm.world;
    if (world < 2) return STATUS_OK;
    uint64_t *budgets = memory_new((size_t)world, sizeof *budgets);
    if (!budgets) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    status result = comm_share(&s->budget, budgets, sizeof *budgets);
    for (int r = 0; r < world && result == STATUS_OK; r++)
        if (budgets[r] < s->budget) s->budget = budgets[r];
    memory_free(budgets);
    if (result == STATUS_OK && s->budget < UINT64_MAX) s->request.run.memory = s->budget;
    return result == STATUS_OK ? comm_tell(&s->request.run.lower.rates, sizeof(device_rates)) : result;
}

/* What a plan is told by: its choice and what it takes. And what a run is told by: what it computes, and
 * where it begins. */
typedef struct {
    uint64_t peak_bytes, arena_bytes, choice, run;
    int64_t step;
} told;

static told tell(const decision *d, const resume *from) {
    const compose_choice *c = &d->point.choice;
    char words[PASS_MAX * 16 + 64], digits[IDENTITY_DIGEST_BYTES];
    size_t n = (size_t)snprintf(words, sizeof words, "%lld", (long long)c->micro_batch);
    for (int i = 0; pass_table[i] && n < sizeof words; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, ",%.12s", c->settings[i].text);
    if (n < sizeof words) snprintf(words + n, sizeof words - n, ",%s", products_kind(d));
    return (told){ d->plan.peak_bytes, d->plan.pools[POOL_MEMORY].arena_bytes, hash_name(words),
                   hash_name(identity_digest(&from->run, digits)), from->step };
}

/* Ranks that began at different steps, or read other data, would train without a word. */
static status refuse_rank(int r, const told *is, const told *first) {
    if (is->step != first->step)
        return status_set(STATUS_INVALID,
                          "rank %d would go on from step %lld, and rank 0 from step %lld: the folder of the "
                          "run is not one for all",
                          r, (long long)is->step, (long long)first->step);
    if (is->run != first->run)
        return status_set(STATUS_INVALID,
                          "rank %d finds other data, another model or other options than rank 0 finds", r);
    return status_set(STATUS_INVALID,
                      "rank %d plans otherwise than rank 0 (%llu bytes at the peak, not %llu): their builds, "
                      "processors, files or options differ",
                      r, (unsigned long long)is->peak_bytes, (unsigned long long)first->peak_bytes);
}

status ranks_agree(status so_far, const decision *d, const resume *from) {
    int world = comm_world().world;
    if (world < 2) return so_far;
    TRY(comm_agree(so_far));
    told mine = tell(d, from), *all = memory_new((size_t)world, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    status result = comm_share(&mine, all, sizeof mine);
    for (int r = 1; r < world && result == STATUS_OK; r++)
        if (memcmp(&all[r], &all[0], sizeof all[0]) != 0) result = refuse_rank(r, &all[r], &all[0]);
    memory_free(all);
    return result;
}
