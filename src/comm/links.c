#define _GNU_SOURCE
#include "comm/links.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "comm/module.h"

/* Bytes to each other rank, and how often. Small ones too want a handshake, as most of a model's do. */
enum { TINY = 64, SMALL = 16 << 10, LARGE = 4 << 20, MOST = 64 << 20, ROUNDS = 64, FEW = 9 };
static const double ENOUGH = 0.5; /* seconds of large movements */

typedef struct {
    int of_host; /* ranks of the host that has most */
    bool *with[LINK_COUNT];
    int peers[LINK_COUNT]; /* of this rank */
    uint64_t large;
    char *from, *to;
} meter;

static void close_meter(meter *m) {
    memory_free(m->from);
    memory_free(m->to);
    for (int l = 0; l < LINK_COUNT; l++) memory_free(m->with[l]);
}

/* Who is on which link. */
static status find_hosts(meter *m) {
    comm_ranks ranks = comm_world();
    typedef char host[COMM_HOST_BYTES];
    host own = "", *all = memory_new((size_t)ranks.world, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to measure links");
    if (gethostname(own, sizeof own - 1) != 0) own[0] = 0;
    status result = comm_share(own, all, sizeof own);
    for (int r = 0; r < ranks.world && result == STATUS_OK; r++) {
        int same = 0, link = strcmp(all[r], own) == 0 ? LINK_WITHIN : LINK_BETWEEN;
        for (int q = 0; q < ranks.world; q++) same += strcmp(all[q], all[r]) == 0;
        if (same > m->of_host) m->of_host = same;
        m->with[link][r] = r != ranks.rank;
        m->peers[link] += r != ranks.rank;
    }
    memory_free(all);
    return result;
}

static status open_meter(meter *m) {
    uint64_t world = (uint64_t)comm_world().world;
    *m = (meter){ .large = MOST / world < LARGE ? MOST / world : LARGE };
    if (m->large < 2 * SMALL) m->large = 2 * SMALL;
    m->from = memory_new(world, m->large), m->to = memory_new(world, m->large);
    bool enough = m->from && m->to;
    for (int l = 0; l < LINK_COUNT; l++) enough &= (m->with[l] = memory_new(world, sizeof(bool))) != NULL;
    TRY(comm_agree(enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to measure links")));
    memset(m->from, 1, world * m->large); /* pages that are there */
    memset(m->to, 1, world * m->large);
    return find_hosts(m);
}

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double move_once(const meter *m, uint64_t each) {
    double began = clock_seconds();
    comm_start(&(comm_order){ .kind = COMM_EXCHANGE,
                              .from = m->from,
                              .to = m->to,
                              .whole = (uint64_t)comm_world().world * each,
                              .share = each });
    comm_wait(m->to);
    return clock_seconds() - began;
}

/* Of `rounds` movements of `each` bytes on a link, one right behind the other: the seconds of one, by the
 * median, and its processor's. */
static void time_movement(const meter *m, int link, uint64_t each, int rounds, double *seconds,
                          double *busy) {
    double times[ROUNDS], before = processor_seconds();
    comm_only(m->with[link]);
    for (int i = 0; i < rounds; i++) times[i] = move_once(m, each);
    comm_only(NULL);
    *busy = (processor_seconds() - before) / rounds;
    qsort(times, (size_t)rounds, sizeof *times, compare_times);
    *seconds = times[rounds / 2];
}

/* In a step ranks come one after the other, and by then the first ones nap. So they take turns in being late,
 * and who was takes the time: the median of its own. */
static double time_late(const meter *m, int link, uint64_t each) {
    enum { LATE = 200000 };
    double times[ROUNDS];
    comm_ranks ranks = comm_world();
    int turns = ranks.world < ROUNDS / 2 ? ROUNDS / ranks.world : 2;
    comm_only(m->with[link]);
    for (int i = 0; i < turns * ranks.world; i++) {
        bool mine = i % ranks.world == ranks.rank;
        if (mine) nanosleep(&(struct timespec){ .tv_nsec = LATE }, NULL);
        double took = move_once(m, each);
        if (mine) times[i / ranks.world] = took;
    }
    comm_only(NULL);
    qsort(times, (size_t)turns, sizeof *times, compare_times);
    return times[turns / 2];
}

/* As many rounds on all ranks as rank 0 has time for. */
static status rounds_for(double seconds, int *rounds) {
    double wanted = ENOUGH / (seconds > 0 ? seconds : 1e-6);
    *rounds = wanted < 3 ? 3 : wanted > ROUNDS ? ROUNDS : (int)wanted;
    return comm_tell(rounds, sizeof *rounds);
}

/* Bytes that pass where all ranks of a host share one way. */
static double bytes_of_host(const meter *m, int link, double each) {
    double k = m->of_host, others = link == LINK_WITHIN ? k - 1 : comm_world().world - k;
    return k * others * each;
}

/* Of a small movement what is not its bytes', which are counted by the rates: on a slow link that is less
 * than they take. The first bytes may pass faster than others, but no movement takes less than a tiny one. */
static double without_bytes(double small, double of_bytes, double tiny) {
    return small - of_bytes > tiny ? small - of_bytes : tiny;
}

static status measure_link(const meter *m, int link, link_rates *out) {
    double small, large, tiny, busy_small, busy_large, busy_tiny;
    int rounds;
    time_movement(m, link, SMALL, FEW, &small, &busy_small); /* connections are made */
    time_movement(m, link, TINY, ROUNDS, &tiny, &busy_tiny);
    time_movement(m, link, SMALL, ROUNDS, &small, &busy_small);
    time_movement(m, link, m->large, 1, &large, &busy_large);
    TRY(rounds_for(large, &rounds));
    time_movement(m, link, m->large, rounds, &large, &busy_large);
    double more = (double)(m->large - SMALL), longer = large - small, busier = busy_large - busy_small;
    *out = (link_rates){ 0 };
    if (m->peers[link]) out->rate = bytes_of_host(m, link, more) / (longer > 1e-9 ? longer : 1e-9);
    if (m->peers[link] && busier > 0) out->busy_seconds = busier / (more * m->peers[link]);
    double of_bytes = out->rate > 0 ? bytes_of_host(m, link, SMALL) / out->rate : 0;
    out->seconds = without_bytes(time_late(m, link, SMALL), of_bytes, time_late(m, link, TINY));
    out->busy = without_bytes(busy_small, SMALL * m->peers[link] * out->busy_seconds, busy_tiny);
    return comm_failed();
}

/* Of all ranks, since they may have other peers: those that the link was slowest for. */
static status take_slowest(links *out) {
    int world = comm_world().world;
    links *all = memory_new((size_t)world, sizeof *all);
    if (!all) return status_set(STATUS_FAILED, "no memory to measure links");
    status result = comm_share(out, all, sizeof *out);
    for (int r = 0; r < world && result == STATUS_OK; r++)
        for (int l = 0; l < LINK_COUNT; l++)
            if (all[r].of[l].rate > 0 && (out->of[l].rate <= 0 || all[r].of[l].rate < out->of[l].rate))
                out->of[l] = all[r].of[l];
    memory_free(all);
    return result == STATUS_OK ? comm_tell(out, sizeof *out) : result;
}

status comm_measure(links *out) {
    meter m;
    *out = (links){ .ranks = comm_world().world, .of_host = 1 };
    if (out->ranks < 2) return STATUS_OK;
    status result = open_meter(&m);
    for (int l = 0; l < LINK_COUNT && result == STATUS_OK; l++)
        if (bytes_of_host(&m, l, 1) > 0) result = measure_link(&m, l, &out->of[l]);
    out->of_host = m.of_host;
    close_meter(&m);
    return result == STATUS_OK ? take_slowest(out) : result;
}
