#define _GNU_SOURCE
#include "base/threads_pin.h"

#include <limits.h>
#include <stdio.h>

/* The lowest processor of the core that `cpu` belongs to; itself where the machine does not tell. */
static unsigned core_of(const char *root, unsigned cpu) {
    char path[PATH_MAX];
    unsigned lowest = cpu;
    if (snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", root,
                 cpu) >= (int)sizeof path)
        return cpu;
    FILE *file = fopen(path, "r");
    if (!file) return cpu;
    if (fscanf(file, "%u", &lowest) != 1) lowest = cpu; /* "0,64" or "0-1": the first is the lowest */
    fclose(file);
    return lowest;
}

bool threads_pin_choose(const char *root, const cpu_set_t *mask, int threads, unsigned *cpu) {
    cpu_set_t left = *mask, cores_seen;
    int chosen = 0, cores = 0;
    if (threads < 2 || threads > CPU_COUNT(mask)) return false;
    CPU_ZERO(&cores_seen);
    for (unsigned at = 0; at < CPU_SETSIZE; at++) {
        if (!CPU_ISSET(at, mask)) continue;
        unsigned core = core_of(root, at);
        if (core >= CPU_SETSIZE || CPU_ISSET(core, &cores_seen)) continue;
        CPU_SET(core, &cores_seen);
        CPU_CLR(at, &left);
        if (cores++ < threads) cpu[chosen++] = at;
    }
    if (threads < cores) return false;
    for (unsigned i = 0; i < CPU_SETSIZE && chosen < threads; i++)
        if (CPU_ISSET(i, &left)) cpu[chosen++] = i;
    return true;
}
