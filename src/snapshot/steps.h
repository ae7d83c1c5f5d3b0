/* What each step takes, and what grows from step to step. */
#pragma once

#include "snapshot/levels.h"
#include "snapshot/roles.h"

typedef struct {
    uint32_t step, begins, ends; /* instants; the last one may be cut */
    bool whole;                  /* its update was seen */
    uint64_t peak[COURSE_PHASES], end;
    uint64_t reserved; /* of the device at its end */
} steps_step;

/* What is born in each step from the second on and stays. */
typedef struct {
    uint32_t stack, count; /* of how many allocations */
    uint64_t bytes;        /* a step */
} steps_growth;

typedef struct {
    steps_step *all;
    uint32_t count;
    uint64_t grows;   /* bytes a step; 0: nothing grows, or fewer than three steps tell */
    uint32_t seen;    /* steps that this was seen over */
    steps_growth *by; /* largest first */
    uint32_t by_count;
} steps;

status steps_open(const course *c, const levels *l, steps *s);
void steps_close(steps *s); /* fine on a zeroed one */
