/* Runs a program by the clock: one moment before the first kernel and one after each, so the durations of the
 * calls add up to the run without a gap. What passes between two calls, a few nanoseconds and the reading of
 * the clock itself, counts for the second. Where kernels are given to a lane, its device takes the times. */
#define _GNU_SOURCE
#include <time.h>

#include "exec/exec_internal.h"

double exec_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The most moments between two waits of the host. */
static uint64_t moments_of_step(const plan *p) {
    uint64_t most = 0, step = 0;
    for (uint32_t k = 0; k < p->program_count; k++)
        if (p->programs[k].program.count > most) most = p->programs[k].program.count;
    for (int64_t i = 0, n = plan_calls(p, TASK_TRAIN); i < n; i++)
        step += (uint64_t)p->programs[plan_call_of(p, TASK_TRAIN, i).program].program.count + 1;
    return step > most ? step : most + 1;
}

status exec_time(exec *e, double *moments, uint64_t room) {
    const device *d = e->plan->device;
    e->timed = (timing){ .moments = moments, .room = room };
    return moments && d->stamps ? d->stamps(d, moments_of_step(e->plan)) : STATUS_OK;
}

static void note(const device *d, double *at) {
    if (d->stamp)
        d->stamp(d, at);
    else
        *at = exec_now();
}

uint64_t exec_timed(const exec *e) { return e->timed.count; }

bool timing_run(exec *e, const bound_program *b) {
    timing *t = &e->timed;
    const device *d = e->plan->device;
    const program *p = &b->plan->program;
    if (t->room - t->count < (uint64_t)p->count + 1) return false;
    double *moment = t->moments + t->count;
    note(d, moment++);
    for (uint32_t s = 0; s < p->count; s++) {
        exec_step(e, b, s);
        note(d, moment++);
    }
    t->count += (uint64_t)p->count + 1;
    return true;
}
