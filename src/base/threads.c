/* A pool of threads that is cheap to call and does not mind being one of many on the machine.
 *
 * A job is a number of tiles. The caller publishes it, takes tiles itself, and is done when all tiles are
 * done, not when all threads have come by: on a machine where others compute too, a thread that is not
 * running costs nothing, because the tiles it would have taken are taken by those that are. (OpenMP's loops
 * end in a barrier for all threads; with two processes on two processors that made small steps thirty times
 * slower.)
 *
 * Invariants:
 * - `ticket` holds the job's number and the next tile in one word, so a tile is only ever claimed for the job
 * that a thread has read the description of;
 * - the description changes only after every tile of the job before is done, and while the ticket is closed.
 */
#define _GNU_SOURCE
#include "base/threads.h"

#include "base/cgroup.h"
#include "base/threads_pin.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 1023,
    WORKER_STACK = 1 << 20,
    SPINS = 4000 /* looks at a word before sleeping on it: some tens of microseconds */
};

static struct {
    _Atomic(threads_body) body;
    _Atomic(void *) context;
    _Atomic int64_t tiles;
    _Atomic int threads;     /* that may take part */
    _Atomic uint64_t ticket; /* number of the job << 32 | next tile */
    _Atomic uint32_t number; /* of the job: what idle threads sleep on */
    _Atomic uint32_t asleep; /* idle threads that do */
    _Atomic uint32_t undone; /* tiles: what the caller sleeps on */
    _Atomic bool waiting;    /* the caller does */
} job;

static _Thread_local int thread_count = 1; /* of a caller; of a worker, its job's */
static int worker_count;                   /* started so far */
static pthread_t workers[MAX_WORKERS];
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; /* of a tile */

/* ---- waiting ---- */

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Returns when *word is no longer `value`: looks for a while, then sleeps. */
static void wait_for_change(_Atomic uint32_t *word, uint32_t value) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value) return;
        pause_briefly();
    }
    while (atomic_load(word) == value) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- tiles ---- */

/* Takes tiles of job `number` as thread `thread` until there are none left or the job is over. */
static void work(uint32_t number, int thread) {
    threads_body body = atomic_load(&job.body);
    void *context = atomic_load(&job.context);
    int64_t tiles = atomic_load(&job.tiles);
    uint64_t ticket = atomic_load(&job.ticket);
    while (ticket >> 32 == number && (int64_t)(uint32_t)ticket < tiles) {
        if (!atomic_compare_exchange_weak(&job.ticket, &ticket, ticket + 1)) continue;
        body(context, (int64_t)(uint32_t)ticket, thread);
        if (atomic_fetch_sub(&job.undone, 1) == 1 && atomic_load(&job.waiting)) wake_all(&job.undone);
        ticket = atomic_load(&job.ticket);
    }
}

static void *worker(void *index) {
    int thread = (int)(intptr_t)index;
    uint32_t seen = 0;
    inside = true;
    for (;;) {
        atomic_fetch_add(&job.asleep, 1);
        wait_for_change(&job.number, seen);
        atomic_fetch_sub(&job.asleep, 1);
        seen = atomic_load(&job.number);
        int threads = atomic_load(&job.threads);
        if (thread >= threads) continue;
        thread_count = threads;
        work(seen, thread);
    }
    return NULL;
}

/* ---- places ---- */

/* Where the threads of the pool stay, as it was decided last. Guarded by `calling`. */
static struct {
    int threads;       /* that it was decided for; 0: never */
    cpu_set_t allowed; /* to the caller */
    bool pinned;
    unsigned cpu[MAX_WORKERS + 1]; /* of each thread, if pinned */
} places;

static _Atomic bool may_pin = true;
static _Thread_local bool pinned; /* this thread, a caller */
static _Thread_local cpu_set_t before;

static cpu_set_t place_of(int thread) {
    cpu_set_t set = places.allowed;
    if (!places.pinned) return set;
    CPU_ZERO(&set);
    CPU_SET(places.cpu[thread], &set);
    return set;
}

static void place_worker(int index) {
    cpu_set_t set = place_of(index + 1);
    if (places.threads) pthread_setaffinity_np(workers[index], sizeof set, &set);
}

static void decide_places(const cpu_set_t *allowed) {
    if (places.threads == thread_count && CPU_EQUAL(allowed, &places.allowed)) return;
    places.threads = thread_count;
    places.allowed = *allowed;
    places.pinned = threads_pin_choose("", allowed, thread_count, places.cpu);
    for (int i = 0; i < worker_count; i++) place_worker(i);
}

void threads_pin(void) {
    cpu_set_t allowed, own;
    if (thread_count < 2 || inside || pinned || !atomic_load(&may_pin)) return;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || pthread_mutex_trylock(&calling) != 0) return;
    decide_places(&allowed);
    bool wanted = places.pinned;
    own = place_of(0);
    pthread_mutex_unlock(&calling);
    if (!wanted || sched_setaffinity(0, sizeof own, &own) != 0) return;
    pinned = true;
    before = allowed;
}

void threads_unpin(void) {
    if (pinned) sched_setaffinity(0, sizeof before, &before);
    pinned = false;
}

void threads_pin_allow(bool allowed) { atomic_store(&may_pin, allowed); }

/* Starts workers up to thread_count - 1; fewer, when the system refuses, are no failure. */
static void start_workers(void) {
    pthread_attr_t attributes;
    if (worker_count >= thread_count - 1 || pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setstacksize(&attributes, WORKER_STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (worker_count < thread_count - 1 && worker_count < MAX_WORKERS) {
        void *index = (void *)(intptr_t)(worker_count + 1);
        if (pthread_create(&workers[worker_count], &attributes, worker, index) != 0) break;
        place_worker(worker_count++);
    }
    pthread_attr_destroy(&attributes);
}

static void publish(int64_t tiles, threads_body body, void *context) {
    uint32_t number = atomic_load(&job.number) + 1;
    atomic_store(&job.ticket, (uint64_t)number << 32 | UINT32_MAX); /* closed while the description changes */
    atomic_store(&job.body, body);
    atomic_store(&job.context, context);
    atomic_store(&job.tiles, tiles);
    atomic_store(&job.threads, thread_count);
    atomic_store(&job.undone, (uint32_t)tiles);
    atomic_store(&job.ticket, (uint64_t)number << 32);
    atomic_store(&job.number, number);
    if (atomic_load(&job.asleep)) wake_all(&job.number);
}

void threads_for(int64_t tiles, threads_body body, void *context) {
    bool alone = thread_count == 1 || tiles <= 1 || tiles > INT32_MAX || inside;
    if (alone || pthread_mutex_trylock(&calling) != 0) {
        for (int64_t i = 0; i < tiles; i++) body(context, i, 0);
        return;
    }
    start_workers();
    publish(tiles, body, context);
    inside = true;
    work(atomic_load(&job.number), 0);
    inside = false;
    atomic_store(&job.waiting, true);
    for (uint32_t left; (left = atomic_load(&job.undone)) != 0;) wait_for_change(&job.undone, left);
    atomic_store(&job.waiting, false);
    pthread_mutex_unlock(&calling);
}

static double seconds_by(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

double threads_seconds(void) {
    double seconds = seconds_by(CLOCK_THREAD_CPUTIME_ID);
    clockid_t clock;
    for (int i = 0; i < worker_count; i++)
        if (pthread_getcpuclockid(workers[i], &clock) == 0) seconds += seconds_by(clock);
    return seconds;
}

/* ---- how many ---- */

void threads_set(int count) { thread_count = count < 1 ? 1 : count > MAX_WORKERS ? MAX_WORKERS : count; }

int threads_count(void) { return thread_count; }

int threads_available(void) {
    cpu_set_t set = before;
    int n = pinned || sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    double quota = cgroup_read("").processors;
    if (quota > 0 && quota < n) n = (int)ceil(quota);
    return n < 1 ? 1 : n;
}
