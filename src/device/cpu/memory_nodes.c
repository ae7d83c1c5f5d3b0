#define _GNU_SOURCE
#include "device/cpu/memory_nodes.h"

#include <dirent.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Is one of these processors in a list such as "0-15,32-47"? */
static bool any_of_list(FILE *list, const cpu_set_t *mask) {
    unsigned first, last;
    while (fscanf(list, "%u", &first) == 1) {
        int next = fgetc(list);
        last = first;
        if (next == '-') {
            if (fscanf(list, "%u", &last) != 1) return false;
            next = fgetc(list);
        }
        for (unsigned cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, mask)) return true;
        if (next != ',') return false;
    }
    return false;
}

static bool has_any(const char *root, unsigned node, const cpu_set_t *mask) {
    char path[512];
    if (snprintf(path, sizeof path, "%s/sys/devices/system/node/node%u/cpulist", root, node) >=
        (int)sizeof path)
        return false;
    FILE *list = fopen(path, "r");
    if (!list) return false;
    bool any = any_of_list(list, mask);
    fclose(list);
    return any;
}

int memory_nodes_of(const char *root, const cpu_set_t *mask, uint64_t nodes[MEMORY_NODES_WORDS]) {
    char path[512];
    int count = 0;
    memset(nodes, 0, MEMORY_NODES_WORDS * sizeof *nodes);
    if (snprintf(path, sizeof path, "%s/sys/devices/system/node", root) >= (int)sizeof path) return 0;
    DIR *folder = opendir(path);
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        unsigned node;
        if (sscanf(entry->d_name, "node%u", &node) != 1 || node >= MEMORY_NODES_MOST) continue;
        if (!has_any(root, node, mask)) continue;
        nodes[node / 64] |= (uint64_t)1 << node % 64, count++;
    }
    closedir(folder);
    return count;
}

/* The kernel takes one bit less than it is told. */
bool memory_nodes_deal(void *data, uint64_t bytes, const uint64_t nodes[MEMORY_NODES_WORDS]) {
    return syscall(SYS_mbind, data, bytes, MPOL_INTERLEAVE, nodes, MEMORY_NODES_MOST + 1, 0) == 0;
}

/* Of this process, which has no wish of its own. */
static int usable(const char *root, uint64_t nodes[MEMORY_NODES_WORDS]) {
    cpu_set_t mask;
    int mode = MPOL_DEFAULT;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) != 0 || mode != MPOL_DEFAULT) return 1;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
    int count = memory_nodes_of(root, &mask, nodes);
    return count > 1 ? count : 1;
}

int memory_nodes_shared(const char *root) {
    uint64_t nodes[MEMORY_NODES_WORDS];
    return usable(root, nodes);
}

int memory_nodes_spread(const char *root, void *data, uint64_t bytes) {
    uint64_t nodes[MEMORY_NODES_WORDS];
    int count = usable(root, nodes);
    return count > 1 && memory_nodes_deal(data, bytes, nodes) ? count : 1;
}
