#define _GNU_SOURCE
#include "base/threads.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>

static int thread_count = 1;

void threads_set(int count) {
    thread_count = count < 1 ? 1 : count;
    omp_set_dynamic(0);
    omp_set_num_threads(thread_count);
}

int threads_count(void) { return thread_count; }

void threads_for(int64_t tiles, threads_body body, void *context) {
    if (thread_count == 1 || tiles == 1) {
        for (int64_t i = 0; i < tiles; i++) body(context, i, 0);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(thread_count)
    for (int64_t i = 0; i < tiles; i++) body(context, i, omp_get_thread_num());
}

/* The CPU quota of the control group, in whole processors rounded up; 0 where there is none. */
static int quota_processors(void) {
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file) return 0;
    long quota = 0, period = 0;
    int fields = fscanf(file, "%ld %ld", &quota, &period);
    fclose(file);
    if (fields != 2 || quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

int threads_available(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = quota_processors();
    if (quota > 0 && quota < n) n = quota;
    return n < 1 ? 1 : n;
}
