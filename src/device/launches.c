#include "device/launches.h"

#include <assert.h>
#include <stddef.h>

/* A multiprocessor has four schedulers, and one that has no warp does nothing. So with fewer threads it takes
 * as long as with these. */
enum { LEAST_THREADS = 128 };

static _Thread_local launches *telling;

void launches_begin(launches *l) {
    assert(!telling);
    telling = l;
}

void launches_end(void) { telling = NULL; }

const launches *launches_told(void) { return telling; }

static double threads_of_most(const launches *l, uint64_t blocks, uint64_t threads) {
    uint64_t most = (blocks + l->multiprocessors - 1) / l->multiprocessors;
    double has = (double)most * (double)threads;
    return has < LEAST_THREADS ? LEAST_THREADS : has;
}

bool launches_note(uint64_t blocks, uint64_t threads) {
    launches *l = telling;
    if (!l) return false;
    l->count++;
    if (!l->multiprocessors || !blocks || !threads) return true;
    l->threads += (double)blocks * (double)threads;
    l->taken += threads_of_most(l, blocks, threads) * l->multiprocessors;
    return true;
}

double launches_stretch(const launches *l) {
    return l->taken > l->threads && l->threads > 0 ? l->taken / l->threads : 1;
}
