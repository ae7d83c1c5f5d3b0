/* Linux says in /proc/self/cgroup which groups a process is in, and in /proc/self/mountinfo where their trees
 * are mounted and which group is the top of each mount: a container often sees only its own branch, under the
 * name that it has outside. */
#define _GNU_SOURCE
#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = PATH_MAX };

/* Version 2 has one tree for everything, version 1 one for each controller; both may be there at once. */
typedef struct {
    const char *controller;                             /* of version 1; "": the tree of version 2 */
    const char *limit, *used, *statistics, *given_back; /* of memory; NULL where it is not about memory */
} hierarchy;

static const hierarchy hierarchies[] = {
    { "", "memory.max", "memory.current", "memory.stat", "inactive_file" },
    { "cpu", NULL, NULL, NULL, NULL },
    { "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file" },
};

/* ---- files ---- */

static FILE *open_in(const char *folder, const char *name) {
    char path[TEXT];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return NULL;
    return fopen(path, "r");
}

/* The first one or two numbers of a file; how many there are ("max" is none). */
static int read_numbers(const char *folder, const char *name, long long number[2]) {
    FILE *file = open_in(folder, name);
    if (!file) return 0;
    int fields = fscanf(file, "%lld %lld", &number[0], &number[1]);
    fclose(file);
    return fields < 0 ? 0 : fields;
}

static uint64_t number_after(const char *folder, const char *name, const char *word) {
    FILE *file = open_in(folder, name);
    if (!file) return 0;
    char line[128], found[64];
    unsigned long long value, result = 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %llu", found, &value) == 2 && strcmp(found, word) == 0) result = value;
    fclose(file);
    return result;
}

/* ---- which group ---- */

/* Is `word` one of a list with commas in between? */
static bool lists(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0) return true;
    return false;
}

/* The group of this process, as /proc/self/cgroup says: lines of NUMBER:CONTROLLERS:PATH. */
static bool find_group(const char *root, const char *controller, char group[TEXT]) {
    FILE *file = open_in(root, "proc/self/cgroup");
    char line[TEXT];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0, list++;
        path[strcspn(path, "\n")] = 0;
        found = *controller ? lists(list, controller) : !*list;
        if (found) snprintf(group, TEXT, "%s", path);
    }
    if (file) fclose(file);
    return found;
}

typedef struct {
    char top[TEXT], point[TEXT]; /* the group that is mounted, and where */
} mounted;

/* A line of mountinfo: NUMBER PARENT DEVICE TOP POINT OPTIONS ... - TYPE SOURCE OPTIONS. */
static bool read_mount(const char *line, const char *controller, mounted *m) {
    char type[32], options[512];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", m->top, m->point) != 2) return false;
    if (sscanf(rest, " - %31s %*s %511s", type, options) != 2) return false;
    return *controller ? strcmp(type, "cgroup") == 0 && lists(options, controller)
                       : strcmp(type, "cgroup2") == 0;
}

static bool find_mount(const char *root, const char *controller, mounted *m) {
    FILE *file = open_in(root, "proc/self/mountinfo");
    char line[2 * TEXT];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) found = read_mount(line, controller, m);
    if (file) fclose(file);
    return found;
}

/* The part of `group` below the mounted one; "" where it lies elsewhere, so that the top of the mount counts.
 */
static const char *below(const char *group, const char *top) {
    size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    bool inside = strncmp(group, top, length) == 0 && (group[length] == '/' || !group[length]);
    return inside && !strstr(group, "/..") ? group + length : "";
}

/* ---- limits ---- */

static void limit_processors(const char *folder, cgroup_limits *l) {
    long long quota[2] = { 0 }, period[2] = { 0 };
    if (read_numbers(folder, "cpu.max", quota) == 2)
        period[0] = quota[1];
    else if (read_numbers(folder, "cpu.cfs_quota_us", quota) >= 1)
        read_numbers(folder, "cpu.cfs_period_us", period);
    if (quota[0] <= 0 || period[0] <= 0) return;
    double processors = (double)quota[0] / (double)period[0];
    if (l->processors <= 0 || processors < l->processors) l->processors = processors;
}

static void limit_memory(const char *folder, const hierarchy *h, cgroup_limits *l) {
    long long limit[2], used[2];
    if (read_numbers(folder, h->limit, limit) < 1 || limit[0] < 0) return;
    uint64_t memory = (uint64_t)limit[0], taken = 0;
    if (read_numbers(folder, h->used, used) >= 1 && used[0] > 0) taken = (uint64_t)used[0];
    uint64_t files = number_after(folder, h->statistics, h->given_back);
    taken -= files < taken ? files : taken;
    uint64_t left = memory > taken ? memory - taken : 0;
    if (memory < l->memory) l->memory = memory;
    if (left < l->memory_left) l->memory_left = left;
}

/* From the group of this process up to the top of the mount. */
static void walk_up(const char *root, const hierarchy *h, cgroup_limits *l) {
    char group[TEXT], folder[3 * TEXT];
    mounted m;
    if (!find_group(root, h->controller, group) || !find_mount(root, h->controller, &m)) return;
    int top = snprintf(folder, sizeof folder, "%s%s", root, m.point);
    snprintf(folder + top, sizeof folder - (size_t)top, "%s", below(group, m.top));
    for (;;) {
        limit_processors(folder, l);
        if (h->limit) limit_memory(folder, h, l);
        char *last = strrchr(folder + top, '/');
        if (!last) return;
        *last = 0;
    }
}

cgroup_limits cgroup_read(const char *root) {
    cgroup_limits l = { .memory = UINT64_MAX, .memory_left = UINT64_MAX };
    for (size_t i = 0; i < sizeof hierarchies / sizeof *hierarchies; i++) walk_up(root, &hierarchies[i], &l);
    return l;
}
