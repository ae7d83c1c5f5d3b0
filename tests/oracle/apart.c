#define _GNU_SOURCE
#include "oracle/apart.h"

#include <assert.h>
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

static void begin(const device *d) {
    (void)d;
    let(true);
}

static void end(const device *d) {
    (void)d;
    let(false);
    apart_seen.runs++;
}

const device apart_device = { .name = "a stand-in",
                              .kind = DEVICE_CPU,
                              .apart = true,
                              .open = open_pool,
                              .close = close_pool,
                              .put = put,
                              .get = get,
                              .begin = begin,
                              .end = end };
