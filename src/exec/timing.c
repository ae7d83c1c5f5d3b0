/* Runs a program by the clock: one moment before the first kernel and one after each, so the durations of the
 * calls add up to the run without a gap. What passes between two calls, a few nanoseconds and the reading of
 * the clock itself, counts for the second. */
#define _GNU_SOURCE
#include <time.h>

#include "exec/exec_internal.h"

double exec_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void exec_time(exec *e, double *moments, uint64_t room) {
    e->timed = (timing){ .moments = moments, .room = room };
}

uint64_t exec_timed(const exec *e) { return e->timed.count; }

bool timing_run(exec *e, const bound_program *b) {
    timing *t = &e->timed;
    const program *p = &b->plan->program;
    if (t->room - t->count < (uint64_t)p->count + 1) return false;
    double *moment = t->moments + t->count;
    *moment++ = exec_now();
    for (uint32_t s = 0; s < p->count; s++) {
        exec_step(e, b, s);
        *moment++ = exec_now();
    }
    t->count += (uint64_t)p->count + 1;
    return true;
}
