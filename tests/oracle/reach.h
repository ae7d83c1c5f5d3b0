/* For tests that look closer than a host may: programs by name, and addresses of values in the pool. */
#pragma once

#include <assert.h>
#include <string.h>

#include "exec/exec_internal.h"

/* Its place in the plan; where there is none, how many programs the plan has. */
static inline uint32_t reach_program(const plan *p, const char *name) {
    uint32_t k = 0;
    while (k < p->program_count && strcmp(p->programs[k].program.shape.name, name) != 0) k++;
    return k;
}

/* NULL: the plan has no such program. */
static inline const program *reach_planned(const plan *p, const char *name) {
    uint32_t k = reach_program(p, name);
    return k < p->program_count ? &p->programs[k].program : NULL;
}

/* In memory; NULL: there is no such value. */
static inline void *reach_value(exec *e, exec_value x) {
    exec_part part = { 0 };
    if (x.bytes && exec_room(e, &x, 0, &part) != STATUS_OK) assert(!"it is in a file");
    return part.data;
}

static inline void *reach_input(exec *e, const char *of, const char *name) {
    uint32_t k = reach_program(e->plan, of);
    return k < e->plan->program_count ? reach_value(e, exec_input(e, k, name)) : NULL;
}

static inline const void *reach_output(exec *e, const char *of, const char *name) {
    uint32_t k = reach_program(e->plan, of);
    return k < e->plan->program_count ? reach_value(e, exec_output(e, k, name)) : NULL;
}

static inline void reach_run(exec *e, const char *name) { exec_run(e, reach_program(e->plan, name)); }
