#include "cli/ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/threads.h"

/* Where the launcher has bound none of them to cores, they divide those of their host. */
static int64_t threads_of(const launch *l) {
    int there = threads_available();
    if (there < (int)sysconf(_SC_NPROCESSORS_ONLN)) return there;
    return there / l->of_host > 1 ? there / l->of_host : 1;
}

status ranks_begin(const launch *l, options *o) {
    if (l->world < 2) return STATUS_OK;
    TRY(comm_open(l));
    comm_limit((double)o->run.rank_timeout);
    o->run.of_host = l->of_host;
    if (!o->run.threads) o->run.threads = threads_of(l);
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

/* What a plan is told by: its choice and what it takes. */
typedef struct {
    uint64_t peak_bytes, arena_bytes, choice;
} told;

static told tell(const decision *d) {
    const compose_choice *c = &d->point.choice;
    char words[PASS_MAX * 16 + 64];
    size_t n = (size_t)snprintf(words, sizeof words, "%lld", (long long)c->micro_batch);
    for (int i = 0; pass_table[i] && n < sizeof words; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, ",%.12s", c->settings[i].text);
    return (told){ d->plan.peak_bytes, d->plan.pools[POOL_MEMORY].arena_bytes, hash_name(words) };
}

status ranks_agree(status so_far, const decision *d) {
    int world = comm_world().world;
    if (world < 2) return so_far;
    TRY(comm_agree(so_far));
    told mine = tell(d), *all = memory_new((size_t)world, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to speak to other ranks");
    status result = comm_share(&mine, all, sizeof mine);
    for (int r = 1; r < world && result == STATUS_OK; r++)
        if (memcmp(&all[r], &all[0], sizeof all[0]) != 0)
            result =
                status_set(STATUS_INVALID,
                           "rank %d plans otherwise than rank 0 (%llu bytes at the peak, not %llu): their "
                           "builds, files or options differ",
                           r, (unsigned long long)all[r].peak_bytes, (unsigned long long)all[0].peak_bytes);
    memory_free(all);
    return result;
}
