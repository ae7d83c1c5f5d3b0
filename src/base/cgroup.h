/* What the control groups of this process let it have: of both versions, and of all groups from its own up
 * to the root of what it can see, the smallest counts. */
#pragma once

#include <stdint.h>

typedef struct {
    double processors;    /* CPU quota over its period; 0: no limit */
    uint64_t memory;      /* bytes; UINT64_MAX: no limit */
    uint64_t memory_left; /* bytes, what it takes for files that are given back on demand counted as free */
} cgroup_limits;

/* `root` stands before all paths that are read ("" but in tests). What can't be read limits nothing. */
cgroup_limits cgroup_read(const char *root);
