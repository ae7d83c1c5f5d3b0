#define _GNU_SOURCE
#include "oracle/apart.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/units.h"

apart_counts apart_seen;

/* A pool is a file without a name, mapped at its address only while it may be touched: so it is not resident
 * in between, as memory elsewhere would not be. */
typedef struct {
    device_pool at;
    int file;
} apart_pool;

enum { MOST_POOLS = 4 };
static apart_pool pools[MOST_POOLS];

static void *map(const apart_pool *x, bool in) {
    int fixed = x->at.data ? MAP_FIXED : 0;
    return in ? mmap(x->at.data, x->at.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, x->file, 0)
              : mmap(x->at.data, x->at.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
}

/* All pools, for kernels and copies alone. */
static void let(bool in) {
    for (int i = 0; i < MOST_POOLS; i++)
        if (pools[i].at.data && map(&pools[i], in) == MAP_FAILED) abort();
}

static status open_pool(const device *d, device_pool *p, uint64_t bytes) {
    (void)d;
    apart_pool *x = pools;
    while (x->at.data) x++;
    assert(x < pools + MOST_POOLS);
    *x = (apart_pool){ { NULL, units_align(bytes ? bytes : 1, 4096) }, memfd_create("pool", MFD_CLOEXEC) };
    if (x->file < 0 || ftruncate(x->file, (off_t)x->at.bytes) != 0) abort();
    x->at.data = map(x, false);
    if (x->at.data == MAP_FAILED) abort();
    *p = x->at;
    apart_seen.open_bytes += bytes;
    if (apart_seen.open_bytes > apart_seen.most_bytes) apart_seen.most_bytes = apart_seen.open_bytes;
    return STATUS_OK;
}

static void close_pool(const device *d, device_pool *p) {
    (void)d;
    for (int i = 0; p->data && i < MOST_POOLS; i++) {
        if (pools[i].at.data != p->data) continue;
        munmap(p->data, p->bytes);
        close(pools[i].file);
        pools[i] = (apart_pool){ 0 };
        apart_seen.open_bytes = 0;
    }
    *p = (device_pool){ 0 };
}

static void put(const device *d, void *to, const void *from, uint64_t bytes) {
    (void)d;
    let(true);
    memcpy(to, from, bytes);
    let(false);
    apart_seen.put_bytes += bytes;
}

static void get(const device *d, void *to, const void *from, uint64_t bytes) {
    (void)d;
    let(true);
    memcpy(to, from, bytes);
    let(false);
    apart_seen.got_bytes += bytes;
}

/* ---- lanes ---- */

/* Copies that were given and are not done, oldest first. Kernels run where they are called: so what a copy
 * must come after is always done. */
enum { MOST_COPIES = 4096 };
static struct {
    struct {
        void *to;
        const void *from;
        uint64_t bytes;
        void (*call)(void *); /* a function of the host instead, or NULL */
    } copies[MOST_COPIES];
    uint64_t given, done; /* since the program began: numbers of copies, of which they are the first ones */
    uint64_t kernels;     /* events of the lane of kernels that were asked for */
    uint64_t random;
    bool running;
    bool ordered; /* what is copied now comes after the kernels that have been called */
} lanes_now;

apart_pace apart_pace_now;

static void do_copies(uint64_t up_to) {
    for (; lanes_now.done < up_to; lanes_now.done++) {
        uint64_t i = lanes_now.done % MOST_COPIES;
        if (lanes_now.copies[i].call)
            lanes_now.copies[i].call(lanes_now.copies[i].to);
        else
            memcpy(lanes_now.copies[i].to, lanes_now.copies[i].from, lanes_now.copies[i].bytes);
    }
}

/* As many as the pace says. */
static void maybe_copy(void) {
    uint64_t waiting = lanes_now.given - lanes_now.done;
    lanes_now.random = lanes_now.random * 6364136223846793005u + 1442695040888963407u;
    if (apart_pace_now == APART_EAGER) do_copies(lanes_now.given);
    if (apart_pace_now == APART_RANDOM && waiting)
        do_copies(lanes_now.done + (lanes_now.random >> 33) % (waiting + 1));
}

static bool is_ours(const void *at) {
    bool ours = false;
    for (int i = 0; i < MOST_POOLS; i++) {
        const char *begin = pools[i].at.data;
        ours |= begin && (const char *)at >= begin && (const char *)at < begin + pools[i].at.bytes;
    }
    return ours;
}

/* What kernels have made leaves only after an event of theirs was waited for. */
static void copy(const device *d, void *to, const void *from, uint64_t bytes) {
    (void)d;
    assert(lanes_now.running && lanes_now.given - lanes_now.done < MOST_COPIES);
    assert(is_ours(to) != is_ours(from) && (lanes_now.ordered || is_ours(to)));
    uint64_t i = lanes_now.given++ % MOST_COPIES;
    lanes_now.copies[i].to = to, lanes_now.copies[i].from = from, lanes_now.copies[i].bytes = bytes;
    lanes_now.copies[i].call = NULL;
    apart_seen.copies++, apart_seen.copied_bytes += bytes;
    maybe_copy();
}

static void call(const device *d, void (*function)(void *), void *context) {
    (void)d;
    assert(lanes_now.running && lanes_now.given - lanes_now.done < MOST_COPIES);
    uint64_t i = lanes_now.given++ % MOST_COPIES;
    lanes_now.copies[i].call = function, lanes_now.copies[i].to = context;
    maybe_copy();
}

/* Kernels run where they are called, and what is done in their order. */
static void carry(const device *d, void *to, const void *from, uint64_t bytes) {
    (void)d;
    assert(lanes_now.running && is_ours(to) != is_ours(from));
    memcpy(to, from, bytes);
}

static uint64_t mark(const device *d, device_lane l) {
    (void)d;
    return l == LANE_COPY ? lanes_now.given : ++lanes_now.kernels;
}

static void after(const device *d, device_lane l, device_lane other, uint64_t event) {
    (void)d;
    assert(lanes_now.running && l != other);
    assert(event <= (other == LANE_COPY ? lanes_now.given : lanes_now.kernels));
    lanes_now.ordered = l == LANE_COPY;
    if (l != LANE_COMPUTE) return;
    if (event > lanes_now.done) apart_seen.waited += event - lanes_now.done;
    do_copies(event);
    maybe_copy();
}

static void begin(const device *d) {
    (void)d;
    let(true);
    lanes_now.running = true;
}

static void end(const device *d) {
    (void)d;
    apart_seen.waited += lanes_now.given - lanes_now.done;
    do_copies(lanes_now.given);
    lanes_now.running = false;
    let(false);
    apart_seen.runs++;
}

static void fill(const device *d, void *at, int byte, uint64_t bytes) {
    (void)d;
    assert(lanes_now.running && is_ours(at));
    memset(at, byte, bytes);
}

/* ---- what it says of itself ---- */

uint64_t apart_free = (uint64_t)1 << 40, apart_beside = 2 << 20;

static uint64_t available(const device *d) {
    (void)d;
    return apart_free;
}

static device_parts reserve(const device *d) {
    (void)d;
    return (device_parts){ .context = APART_RESERVE };
}

static device_parts beside(const device *d) {
    (void)d;
    return (device_parts){ .context = apart_beside };
}

static status open_host(const device *d, device_pool *p, uint64_t bytes) {
    (void)d;
    return device_pool_open(p, bytes);
}

static void close_host(const device *d, device_pool *p) {
    (void)d;
    device_pool_close(p);
}

/* Half as fast as the processor's table, and copies as slow as a disk. */
static device_rates rates(const device *d, int threads) {
    device_rates r = device_rates_default(threads);
    for (int k = 0; k < WORK_KINDS; k++) r.flops[k] /= 2;
    r.copied = r.file_read;
    snprintf(r.source, sizeof r.source, "table of %s", d->name);
    return r;
}

const device apart_device = { .name = "a stand-in",
                              .kind = DEVICE_CPU,
                              .capability = APART_CAPABILITY,
                              .rates = rates,
                              .available = available,
                              .reserve = reserve,
                              .beside = beside,
                              .apart = true,
                              .open = open_pool,
                              .close = close_pool,
                              .open_host = open_host,
                              .close_host = close_host,
                              .put = put,
                              .get = get,
                              .begin = begin,
                              .end = end,
                              .fill = fill,
                              .copy = copy,
                              .carry = carry,
                              .call = call,
                              .mark = mark,
                              .after = after };
